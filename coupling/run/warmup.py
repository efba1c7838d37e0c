"""A few steps of a small learner, which compile and load all functions that a run calls."""

from __future__ import annotations

import gymnasium
import numpy as np

from rl_agent.config import AgentConfig
from rl_agent.learner import Learner
from rl_agent.normalization.spaces import ActionSpace

__all__ = ["run_warmup"]

_EPISODE = 3
_START = 12


def run_warmup(
    config: AgentConfig,
    observation_space: gymnasium.spaces.Box,
    action_space: ActionSpace,
    agents_per_env: int = 1,
) -> None:
    """Act, store, learn once and sweep the memory, as a run with these settings does, so that everything is compiled.

    The compiled types depend on the settings and on the kind of actions, not on any size.

    Parameters
    ----------
    config
        The settings of the run. With a GPU, nothing is warmed up: its graphs belong to one learner.
    observation_space, action_space, agents_per_env
        As in :class:`rl_agent.learner.Learner`.
    """
    if config.device != "cpu":
        return
    small = config.model_copy(
        update={
            "buffer_size": 4 * _START,
            "learning_starts": _START,
            "horizon": _START,
            "first_horizon": None,
            "batch_size": min(config.batch_size, _START),
            "epochs": 1,
        }
    )
    learner = Learner(
        small, observation_space, action_space, agents=2, seed=0, agents_per_env=agents_per_env
    )
    shape = *learner.sizes.agents_axis, observation_space.shape[0]
    rng = np.random.default_rng(0)
    both = np.arange(2)
    # whole numbers, which images are made of
    seen = lambda count: rng.integers(0, 256, (count, *shape)).astype(np.float32)  # noqa: E731
    learner.begin(both, seen(2))
    has_learned = False
    for step in range(1, 3 * _START):
        for agents in (both[:1], both[1:]) if step % 2 else (both,):
            learner.act(agents)
            ended = step % _EPISODE == 0
            # one agent fails, the other is truncated
            terminated, truncated = (agents == 0) & ended, (agents == 1) & ended
            observations = seen(len(agents))
            rewards = rng.normal(size=(len(agents), *shape[:-1]))
            learner.observe(agents, rewards, terminated, truncated, observations)
            if ended:
                learner.begin(agents, observations)
        while learner.updates_due():
            learner.update()
        if learner.gradient_steps and step % _EPISODE == 0:
            if has_learned:  # one more episode after learning began, which the samplers need
                break
            has_learned = True
    learner.sweep_memory()
