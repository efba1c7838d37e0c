"""What a checkpoint of a learner holds, and how a learner goes on from it to the bit."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import gymnasium
import numpy as np

from rl_agent.multi_agent import joint
from rl_agent.saving.checkpoint import Arrays

if TYPE_CHECKING:
    from rl_agent.learner import Learner

__all__ = ["AVERAGE", "HANDED_OUT", "contents", "own_spaces", "restore", "spaces"]

AVERAGE = "average"
"""Of a learner that averages its policy: the weights to take instead of the newest."""

HANDED_OUT = "handed_out"
"""Of a learner that hands out an earlier policy: its weights, to take instead of both."""

OwnSpaces = tuple[gymnasium.spaces.Box, gymnasium.spaces.Box | gymnasium.spaces.Discrete]


def contents(learner: Learner) -> tuple[Arrays, dict[str, Any]]:
    """Return everything needed to go on: arrays, and what is fit for JSON."""
    memory, counters = learner.memory.state()
    arrays: Arrays = {f"memory/{name}": array for name, array in memory.items()}
    # the name that open episodes have had in every checkpoint so far
    arrays |= {f"running/{name}": array for name, array in learner.open_episodes.save().items()}
    arrays |= {f"sampler/{name}": array for name, array in learner.sampler.save().items()}
    arrays |= {f"algorithm/{name}": array for name, array in learner.algorithm.arrays().items()}
    arrays |= {
        "state/mean": learner.state_scale.mean,
        "state/per_std": learner.state_scale.per_std,
        "action/low": learner.action_map.low,
        "action/high": learner.action_map.high,
        "noise": learner.exploration.noise,
    }
    if learner.average:
        arrays[AVERAGE] = learner.average.weights
    if learner.handed_out is not None:
        arrays[HANDED_OUT] = learner.handed_out
    meta = {
        "config": learner.config.model_dump(mode="json"),
        "agents": learner.agents,
        "world": learner.world,
        "choices": learner.sizes.choices,
        "counters": vars(learner.counters),
        "memory": counters,
        "algorithm": learner.algorithm.counters(),
        "beta": learner.refer.beta,
        "performance": vars(learner.performance),
        "reward_scale": vars(learner.reward_scale),
        "frozen": learner.state_scale.frozen,
        "notes": learner.notes,
        "random": [rng.bit_generator.state for rng in learner.generators],
    }
    return arrays, meta


def own_spaces(arrays: Arrays, meta: dict[str, Any]) -> OwnSpaces:
    """Return the spaces of one agent of the task that a checkpoint is of."""
    size = len(arrays["state/mean"])
    seen = (0.0, 255.0) if meta["config"]["network"] == "conv" else (-np.inf, np.inf)
    observation_space = gymnasium.spaces.Box(*seen, (size,), np.float32)
    low, high = arrays["action/low"], arrays["action/high"]
    if meta["choices"]:
        return observation_space, gymnasium.spaces.Discrete(meta["choices"], start=int(low[0]))
    return observation_space, gymnasium.spaces.Box(low, high, dtype=np.float32)


def spaces(arrays: Arrays, meta: dict[str, Any]) -> tuple[gymnasium.spaces.Box, joint.ActionSpace]:
    """Return the spaces of the task that a checkpoint is of, joint ones of a world."""
    observed, acted = own_spaces(arrays, meta)
    if (world := meta.get("world", 1)) == 1:
        return observed, acted
    return joint.joint_observations(observed, world), joint.joint_actions(acted, world)


def restore(learner: Learner, arrays: Arrays, meta: dict[str, Any]) -> None:
    """Bring a fresh learner with the same settings and spaces to where the checkpoint was written."""
    part = lambda of: {n.removeprefix(of): a for n, a in arrays.items() if n.startswith(of)}  # noqa: E731
    learner.algorithm.restore(part("algorithm/"), meta["algorithm"])
    if learner.average:
        newest = arrays["algorithm/weights"][: len(learner.average.weights)]
        learner.average.weights[:] = arrays.get(AVERAGE, newest)
    learner.hand_out(arrays.get(HANDED_OUT))
    learner.state_scale.mean[:] = arrays["state/mean"]
    learner.state_scale.per_std[:] = arrays["state/per_std"]
    learner.state_scale.frozen = meta["frozen"]
    vars(learner.reward_scale).update(meta["reward_scale"])
    learner.refer.beta = meta["beta"]
    # checkpoints from before it was looked at have none
    vars(learner.performance).update(meta.get("performance", {}))
    learner.notes = meta["notes"]
    learner.counters = type(learner.counters)(**meta["counters"])
    learner.exploration.noise[:] = arrays["noise"]
    learner.memory.restore(part("memory/"), meta["memory"])
    learner.open_episodes.restore(part("running/"))
    learner.sampler.restore(learner.memory, part("sampler/"))
    for rng, state in zip(learner.generators, meta["random"], strict=True):
        rng.bit_generator.state = state
