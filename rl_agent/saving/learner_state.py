"""State of a learner: its components, created from the settings, and checkpoints that continue bit for bit."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Self

import gymnasium
import numpy as np
import numpy.typing as npt
import scipy.linalg  # noqa: F401  (loads the BLAS that numba calls, so that the thread limit reaches it)

from rl_agent.algorithms.making import make_algorithm
from rl_agent.config import AgentConfig
from rl_agent.networks.optim.averaging import make_average
from rl_agent.normalization.actions import action_map_of
from rl_agent.normalization.rewards import RewardScale
from rl_agent.normalization.spaces import ActionSpace, sizes_of
from rl_agent.normalization.states import StateScale
from rl_agent.policy import AVERAGE, HANDED_OUT, Policy, agents_per_env_of, own_spaces
from rl_agent.replay import RememberForget, make_memory, make_sampler
from rl_agent.replay.samplers.performance import Performance
from rl_agent.rollout import inputs
from rl_agent.rollout.collector import Collector
from rl_agent.rollout.statistics import EpisodeRecord, Statistics
from rl_agent.rollout.value_estimates import ValueEstimator
from rl_agent.runtime.device import prepare_device
from rl_agent.saving.checkpoint import (
    Arrays,
    CheckpointError,
    made_from,
    read_checkpoint,
    write_checkpoint,
)
from rl_agent.schedule import Counters

__all__ = ["LearnerState"]

F32 = npt.NDArray[np.float32]

COUNTERS_IN_FILES = {"iteration_end": "learned_serial"}
"""Names of these counters in checkpoints."""


class LearnerState:
    """Components of a learner, their statistics, and their checkpoint; parameters as in ``Learner``.

    Attributes
    ----------
    algorithm, average, handed_out
        Networks and their update; the average of the policy's weights, if used; and weights of an earlier policy
        that are handed out instead, if any.
    memory, sampler, refer, performance
        The replay memory, its sampler, Remember-and-Forget, and the change of the returns for the sampler.
    state_scale, reward_scale, action_map
        Scales of states and rewards, and the map from raw actions to the task's units.
    collector, values
        Open episodes and acting; estimates of V for open and stored episodes.
    schedule, counters
        Schedule of the updates, and the counters on which it depends.
    rng
        Random generator of the sampling from the memory.
    """

    def __init__(
        self,
        config: AgentConfig,
        observation_space: gymnasium.spaces.Box,
        action_space: ActionSpace,
        *,
        agents: int,
        seed: int,
        agents_per_env: int = 1,
    ) -> None:
        self.config, self.agents, self.agents_per_env = config, agents, agents_per_env
        self.sizes = sizes = sizes_of(
            observation_space, action_space, agents_per_env, previous_action=config.previous_action
        )
        inputs.check_agents(config, agents, agents_per_env)
        prepare_device(config.device, config.threads)
        self.action_map = action_map_of(action_space, config.squash)
        seeds = np.random.SeedSequence(seed).spawn(4)
        first, explore, self.rng, scores = (np.random.default_rng(s) for s in seeds)
        self.algorithm = algorithm = make_algorithm(config, sizes, first)
        self.average = make_average(config, algorithm.acting_weights)
        self.handed_out: F32 | None = None
        self.sampler = make_sampler(config, sizes, scores)
        self.refer, self.performance = RememberForget(config), Performance()
        self.state_scale, self.reward_scale = StateScale(sizes.observation), RewardScale()
        if config.network == "conv":
            self.state_scale.freeze_to(inputs.largest_pixel(config, observation_space))
        capacity = algorithm.schedule.capacity(config, agents)
        self.memory = memory = make_memory(
            config,
            sizes,
            capacity,
            algorithm.network.state_shape[0],
            algorithm.window_steps - 1,
        )
        scales = self.state_scale, self.reward_scale
        self.values = ValueEstimator(config, algorithm, *scales, memory)
        parts = algorithm, self.state_scale, memory, self.values
        self.collector = Collector(config, sizes, agents, *parts, explore)
        self.schedule = algorithm.schedule(config, agents)
        self.counters, self._statistics = Counters(), Statistics()
        self.notes: dict[str, Any] = {}

    @property
    def environment_steps(self) -> int:
        """Environment steps t: actions whose outcome was received, over all agents."""
        return self.counters.received

    @property
    def gradient_steps(self) -> int:
        """Number of gradient steps k."""
        return self.counters.gradient_steps

    @property
    def episodes(self) -> int:
        """Number of completed episodes."""
        return self.counters.episodes

    @property
    def gamma(self) -> float:
        """Current discount factor, used by all components."""
        return self.config.discount(self.counters.received)

    def statistics(self) -> dict[str, float]:
        """Return statistics since the last call (section 6 of the algorithm notes); see ``rollout/statistics.py``."""
        step, storage = self.counters.received, self.memory.storage
        share = self.sampler.effective_share(storage)
        return self._statistics.take() | {
            "environment_steps": float(step),
            "gradient_steps": float(self.counters.gradient_steps),
            "episodes_total": float(self.counters.episodes),
            "memory_steps": float(storage.env_steps),
            "memory_episodes": float(storage.episodes // self.agents_per_env),
            "beta": self.refer.beta,
            "c_max": self.refer.c_max(step),
            "learning_rate": self.refer.learning_rate(step),
            **self.memory.values.means(),
            "policy_std": self.collector.behaviour.policy_std,
            "reward_scale": self.reward_scale.value,
            **({} if share is None else {"effective_share": share}),
            **self.algorithm.statistics(),
        }

    def finished_episodes(self) -> list[EpisodeRecord]:
        """Return the episodes completed since the last call, in order."""
        return self._statistics.take_episodes()

    def episodes_under_way(self) -> list[EpisodeRecord]:
        """Return records of the open episodes of at least one step."""
        return self.collector.open_episodes.records(self.agents_per_env, self.counters.received)

    def policy(self) -> Policy:
        """Return a copy of the current policy, or of its average if one is kept.

        After a call of :meth:`hand_out` it is the given earlier policy, until the next gradient step.
        """
        weights = self.average.weights if self.average else self.algorithm.acting_weights
        if self.handed_out is not None:
            weights = self.handed_out
        scale = self.state_scale.mean.copy(), self.state_scale.per_std.copy()
        return Policy(self.config, self.sizes, weights.copy(), *scale, self.action_map)

    def hand_out(self, weights: F32 | None) -> None:
        """Make :meth:`policy` return these weights of an earlier policy until the next gradient step; None: undo."""
        self.handed_out = None if weights is None else weights.copy()

    def save(self, path: Path) -> None:
        """Write a checkpoint from which training continues bit for bit.

        Raises
        ------
        OSError
            If the file cannot be written; an existing file at ``path`` is then unchanged.
        """
        write_checkpoint(path, *self.contents())

    @classmethod
    def load(cls, path: Path, device: str | None = None) -> Self:
        """Read a learner that continues exactly from where ``save`` was called.

        Parameters
        ----------
        path
            The checkpoint.
        device
            Device to use instead of the one in the checkpoint; round-off then differs.

        Raises
        ------
        FileNotFoundError
            If the file does not exist.
        CheckpointError
            If the file is damaged, not a checkpoint, or one of a policy alone.
        DeviceError
            If this machine does not have the device.
        """
        arrays, meta = read_checkpoint(path)
        if "counters" not in meta:
            raise CheckpointError(
                f"checkpoint {path} has a policy without its learner, which cannot be trained further"
            )
        with made_from(path):
            if device is not None:
                meta["config"]["device"] = device
            config = AgentConfig.model_validate(meta["config"])
            agents, agents_per_env = meta["agents"], agents_per_env_of(meta)
            spaces = own_spaces(arrays, meta)
            learner = cls(config, *spaces, agents=agents, agents_per_env=agents_per_env, seed=0)
            learner._restore(arrays, meta)
            return learner

    @property
    def generators(self) -> tuple[np.random.Generator, np.random.Generator]:
        """Random generators of the exploration and of the sampling from the memory."""
        return self.collector.behaviour.rng, self.rng

    def contents(self) -> tuple[Arrays, dict[str, Any]]:
        """Return the contents of a checkpoint: arrays, and JSON-serialisable data."""
        memory, memory_counters = self.memory.state()
        arrays: Arrays = {f"memory/{name}": array for name, array in memory.items()}
        # existing checkpoints have this name for open episodes
        open_episodes = self.collector.open_episodes.save()
        arrays |= {f"running/{name}": array for name, array in open_episodes.items()}
        arrays |= {f"sampler/{name}": array for name, array in self.sampler.save().items()}
        arrays |= {f"algorithm/{name}": array for name, array in self.algorithm.arrays().items()}
        arrays |= {
            "state/mean": self.state_scale.mean,
            "state/per_std": self.state_scale.per_std,
            "action/low": self.action_map.low,
            "action/high": self.action_map.high,
            "noise": self.collector.exploration.noise,
        }
        if self.average:
            arrays[AVERAGE] = self.average.weights
        if self.handed_out is not None:
            arrays[HANDED_OUT] = self.handed_out
        counters = vars(self.counters).items()
        meta = {
            "config": self.config.model_dump(mode="json"),
            "agents": self.agents,
            "agents_per_env": self.agents_per_env,
            "choices": self.sizes.choices,
            "counters": {COUNTERS_IN_FILES.get(name, name): number for name, number in counters},
            "memory": memory_counters,
            "algorithm": self.algorithm.counters(),
            "beta": self.refer.beta,
            "performance": vars(self.performance),
            "reward_scale": vars(self.reward_scale),
            "frozen": self.state_scale.frozen,
            "notes": self.notes,
            "random": [rng.bit_generator.state for rng in self.generators],
        }
        return arrays, meta

    def _restore(self, arrays: Arrays, meta: dict[str, Any]) -> None:
        """Restore a checkpoint into a new learner with the same settings and spaces."""
        part = lambda of: {n.removeprefix(of): a for n, a in arrays.items() if n.startswith(of)}  # noqa: E731
        self.algorithm.restore(part("algorithm/"), meta["algorithm"])
        if self.average:
            newest = arrays["algorithm/weights"][: len(self.average.weights)]
            self.average.weights[:] = arrays.get(AVERAGE, newest)
        self.hand_out(arrays.get(HANDED_OUT))
        self.state_scale.mean[:] = arrays["state/mean"]
        self.state_scale.per_std[:] = arrays["state/per_std"]
        self.state_scale.frozen = meta["frozen"]
        vars(self.reward_scale).update(meta["reward_scale"])
        self.refer.beta = meta["beta"]
        # older checkpoints do not have it
        vars(self.performance).update(meta.get("performance", {}))
        self.notes = meta["notes"]
        names = {in_files: name for name, in_files in COUNTERS_IN_FILES.items()}
        self.counters = Counters(**{names.get(n, n): k for n, k in meta["counters"].items()})
        self.collector.exploration.noise[:] = arrays["noise"]
        self.memory.restore(part("memory/"), meta["memory"])
        self.collector.open_episodes.restore(part("running/"))
        self.sampler.restore(self.memory.storage, part("sampler/"))
        for rng, state in zip(self.generators, meta["random"], strict=True):
            rng.bit_generator.state = state
