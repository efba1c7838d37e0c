"""Gradient steps per second of stable-baselines3's learners, for comparison with ours (extra ``sb3``)."""

from __future__ import annotations

import importlib.util
import time
from typing import Any

import gymnasium
import numpy as np
import torch

from rl_agent.algorithms.ppo.config import PPOConfig
from rl_agent.config import AgentConfig

__all__ = ["measure_sb3", "sb3_is_available"]

STEPS = 4096  # size of the replay memory


class _Random(gymnasium.Env[np.ndarray, np.ndarray]):
    """Environment that provides the spaces for a learner; only ``reset`` is ever called."""

    def __init__(self, observation: int, action: int, *, is_discrete: bool) -> None:
        self.observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (observation,), np.float32)
        box = gymnasium.spaces.Box(-1.0, 1.0, (action,), np.float32)
        self.action_space: gymnasium.Space[Any] = (
            gymnasium.spaces.Discrete(action) if is_discrete else box
        )

    def reset(
        self, *, seed: int | None = None, options: dict[str, Any] | None = None
    ) -> tuple[np.ndarray, dict[str, Any]]:
        """Return zeros."""
        return np.zeros(self.observation_space.shape or (), np.float32), {}


def sb3_is_available(config: AgentConfig) -> bool:
    """Return whether stable-baselines3 is installed and has a counterpart of this learner."""
    has_like = config.algorithm in ("sac", "td3", "ppo", "dqn") and config.network == "mlp"
    return has_like and importlib.util.find_spec("stable_baselines3") is not None


def measure_sb3(
    config: AgentConfig, observation: int, action: int, seconds: float
) -> tuple[str, float]:
    """Return gradient steps per second of stable-baselines3's learner with the same networks and batch.

    The time is that of its ``train`` method: sampling, gradient and target networks.

    Parameters
    ----------
    config
        Settings of our learner.
    observation, action
        Sizes of the spaces.
    seconds
        Time spent on the measurement.

    Returns
    -------
    tuple of str and float
        Name and version of the learner, and its gradient steps per second.
    """
    import stable_baselines3 as sb3
    from stable_baselines3.common.logger import Logger

    torch.set_num_threads(config.threads)
    make = getattr(sb3, config.algorithm.upper())
    common = {
        "batch_size": config.batch_size,
        "policy_kwargs": {"net_arch": list(config.hidden_sizes)},
        "seed": 0,
    }
    own = {"buffer_size": STEPS}
    if isinstance(config, PPOConfig):
        own = {"n_steps": config.horizon, "n_epochs": config.epochs}
    is_discrete = config.algorithm == "dqn"
    model = make(
        "MlpPolicy",
        _Random(observation, action, is_discrete=is_discrete),
        device=config.device,
        **common,
        **own,
    )
    model.set_logger(Logger(None, []))
    draw = np.random.default_rng(0).standard_normal
    updates, spent = 0, 0.0
    if isinstance(config, PPOConfig):
        per_call = config.horizon // config.batch_size * config.epochs
        train = model.train
    else:
        per_call, train = 1, lambda: model.train(gradient_steps=1, batch_size=config.batch_size)
        for _ in range(STEPS):
            ends = np.zeros(1, np.bool_)
            taken = np.zeros((1, 1), np.int64) if is_discrete else draw((1, action))
            model.replay_buffer.add(
                draw((1, observation)), draw((1, observation)), taken, draw(1), ends, [{}]
            )
    while spent < seconds:
        if config.algorithm == "ppo":
            _fill(model, draw, observation, action)
        began = time.perf_counter()
        train()
        spent += time.perf_counter() - began
        updates += per_call
    return f"stable-baselines3 {sb3.__version__} {config.algorithm.upper()}", round(
        updates / spent, 1
    )


def _fill(model: Any, draw: Any, observation: int, action: int) -> None:
    """Fill PPO's rollout buffer with random steps."""
    buffer, zeros = model.rollout_buffer, torch.zeros(1)
    buffer.reset()
    for _ in range(buffer.buffer_size):
        buffer.add(
            draw((1, observation)), draw((1, action)), draw(1), np.zeros(1), zeros, zeros - action
        )
    buffer.compute_returns_and_advantage(zeros, np.zeros(1))
