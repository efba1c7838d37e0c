"""Defaults that fit a run: what a learner takes for settings that nobody named, and which named ones do not fit.

The paper's settings (the fields of ``AgentConfig``) are those of runs of ten million steps. ``fit`` scales them to the
length of a run and of its episodes, by the few rules of ``_rules``; docs/defaults.md has them as a table, with what was
measured. ``defaults: paper`` leaves everything as published.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any, TypeVar

from rl_agent.config import (
    A3CConfig,
    AgentConfig,
    DQNConfig,
    HasTrustRegion,
    OnPolicyConfig,
    PPOConfig,
    Remembering,
    SegmentConfig,
)

__all__ = ["fit", "warnings_of"]

Config = TypeVar("Config", bound=AgentConfig)

PAPER_STEPS = 10_000_000
"""Length of the paper's runs, forty times its memory."""

FITTED_SHARE = {"ddpg": 0.3, "acer": 0.3, "ppo": 1.0}
"""Learning rate of the policy over that of the critics, where it is not the published one."""

FEW_UPDATES = 3.0
"""Learning rate of A3C over that of the others: a run has room for few of its gradients."""

FAR_OF_SAC = 16.0
"""C of SAC with ReF-ER-1: nothing holds its policy near the memory, so with 4 most of it would be far-policy."""

SHORT, SHORT_SIGMA = 1_000_000, 0.3
"""Steps below which a run is short, and TD3's exploration in one."""

UNKNOWN_EPISODE_GAMMA = 0.98
DQN_GAMMA = 0.97

SHORTEST_FRAGMENT = 50

USUAL_AGENTS = 24
"""Agents of a run that names nothing, whose fragments together have ``learning_starts`` steps in memory."""


def fit(config: Config, steps: int, episode_steps: int | None = None) -> Config:
    """Fill in what was not named, to fit a run.

    Parameters
    ----------
    config
        Settings; those that were named (``config.model_fields_set``) stay as they are.
    steps
        Environment steps of the run, over all agents.
    episode_steps
        Longest episode in steps, where it is known.

    Returns
    -------
    AgentConfig
        The resolved settings, all of which count as named; ``config`` itself with ``defaults: paper``.
    """
    if config.defaults == "paper":
        return config
    named = {key: getattr(config, key) for key in config.model_fields_set}
    fitted = dict(_rules(config, named, steps, episode_steps))
    resolved: Config = type(config).model_validate(fitted | named)
    every: Config = type(config).model_validate(dict(resolved))
    return every


def _rules(
    config: AgentConfig, named: Mapping[str, Any], steps: int, episode_steps: int | None
) -> Iterator[tuple[str, Any]]:
    """Yield a value for every setting that has a rule; named ones are taken from ``config``."""
    algorithm = config.algorithm
    yield "beta", 1.0
    yield "gamma", _gamma(episode_steps)
    if config.network == "lstm" and episode_steps is not None:
        yield "window", min(config.window, episode_steps)
    if config.sampler not in ("uniform", "ero"):
        yield "importance_steps", steps
    if isinstance(config, DQNConfig):
        yield from _dqn(config, named, steps)
    if algorithm in ("td3", "sac", "dqn", "rainbow"):
        rate = config.learning_rate
    else:
        rate = min(1e-3, max(1e-4, 1e-4 * math.sqrt(PAPER_STEPS / steps)))
        rate *= FEW_UPDATES if isinstance(config, A3CConfig) else 1.0
        yield "learning_rate", float(f"{rate:.2g}")
        if config.annealing > 0.0:
            yield "annealing", float(f"{5.0 / steps:.2g}")
    if algorithm in FITTED_SHARE:
        yield (
            "policy_learning_rate",
            float(f"{FITTED_SHARE[algorithm] * named.get('learning_rate', rate):.2g}"),
        )
    if algorithm == "sac" and config.replay == "refer-1":
        yield "c_max_scale", FAR_OF_SAC
    if algorithm == "td3" and steps < SHORT:
        yield "sigma", SHORT_SIGMA
    if isinstance(config, HasTrustRegion):
        yield "tau", 0.02
    if isinstance(config, PPOConfig):
        yield "horizon", min(2048, max(4 * config.batch_size, _horizon(steps, episode_steps)))
        # credit reaches about a quarter as far as the discount factor: 0.9 at 0.97, the published value at 0.99
        gamma = named.get("gamma", _gamma(episode_steps))
        yield "gae_lambda", round(min(0.97, max(0.9, 0.9 + 3.5 * (gamma - 0.97))), 3)
        return
    if isinstance(config, OnPolicyConfig):
        horizon = named.get("horizon", max(5 * USUAL_AGENTS, min(config.horizon, steps // 125)))
        yield "horizon", horizon
        yield "first_horizon", max(horizon, _start(config, steps))
        return
    if isinstance(config, SegmentConfig):
        length = min(config.segment, episode_steps or config.segment)
        yield "episodes", math.ceil(256 / length)
        yield "env_steps_per_gradient_step", 4.0
    memory = named.get("buffer_size", _memory(config, steps))
    start = named.get("learning_starts", _start(config, steps))
    yield "buffer_size", max(memory, named.get("learning_starts", 0))
    yield "learning_starts", min(start, memory)
    fragment = max(SHORTEST_FRAGMENT, start // USUAL_AGENTS)
    if config.network == "mlp" and (episode_steps is None or episode_steps > fragment):
        yield "fragment_length", fragment


def _dqn(config: DQNConfig, named: Mapping[str, Any], steps: int) -> Iterator[tuple[str, Any]]:
    """Yield the rules of DQN and Rainbow alone: targets and chance moves for a run of this length."""
    ratio = float(
        named.get(
            "env_steps_per_gradient_step",
            min(config.env_steps_per_gradient_step, max(1.0, steps // 5000)),
        )
    )
    gamma = float(named.get("gamma", DQN_GAMMA))
    yield "gamma", gamma
    yield "env_steps_per_gradient_step", ratio
    yield "batch_size", _batch(config)
    yield "learning_rate", config.learning_rate if config.network == "conv" else 5e-4
    yield (
        "target_update_interval",
        min(config.target_update_interval, max(100, int(steps / ratio / 20))),
    )
    yield "n_step", min(config.n_step, 3)
    yield "epsilon_steps", max(1, steps // 10)
    if not config.noisy:
        yield "epsilon", 0.05
    yield "clip_rewards", False
    yield "value_limit", round(1.0 / max(1e-2, 1.0 - gamma), 1)


def _batch(config: AgentConfig) -> int:
    """Return the steps of a gradient; those of DQN are few, which belongs to pictures."""
    is_small = (
        isinstance(config, DQNConfig)
        and config.network == "mlp"
        and "batch_size" not in config.model_fields_set
    )
    return 128 if is_small else config.batch_size


def _start(config: AgentConfig, steps: int) -> int:
    """Return a fiftieth of the run, whose steps scale the states."""
    return min(5000, max(_batch(config), steps // 50))


def _horizon(steps: int, episode_steps: int | None) -> int:
    """Return a hundred and twentieth of the run; where that is no longer than an episode, four of these."""
    if episode_steps is None or steps // 120 > episode_steps:
        return steps // 120
    return min(4 * episode_steps, steps // 20)


def _gamma(episode_steps: int | None) -> float:
    """Return 1 - 5/L: a horizon of a fifth of the longest episode L, between 33 and 100 steps."""
    if episode_steps is None:
        return UNKNOWN_EPISODE_GAMMA
    return round(min(0.99, max(0.97, 1.0 - 5.0 / episode_steps)), 4)


def _memory(config: AgentConfig, steps: int) -> int:
    """Return a sixth of the run with remember-and-forget, else all of it, as far as published."""
    if config.replay != "none":
        return min(2**16, max(2**12, steps // 6))
    return max(2, min(config.buffer_size, max(steps, 2**12)))


def warnings_of(
    config: AgentConfig, steps: int, episode_steps: int | None = None, agents: int = 1
) -> list[str]:
    """Say which settings do not fit a run.

    Parameters
    ----------
    config, steps, episode_steps
        As of ``fit``, the settings resolved.
    agents
        Environments that take these steps side by side.

    Returns
    -------
    list of str
        A sentence each, with the key, its value and, as ``key=value``, what would fit.
    """
    told = list(_doubts(config, steps, episode_steps))
    if not isinstance(config, Remembering):
        return told
    wait = agents * min(filter(None, (episode_steps, config.fragment_length)), default=0)
    if 2 * wait > steps:
        length = f"of up to {episode_steps} steps" if episode_steps else "without a limit of time"
        told.append(
            f"workers.agents = {agents} with episodes {length} may take {wait} "
            f"steps until the first ones can be learned from, of run.steps = {steps}; fewer agents or a smaller "
            "agent.fragment_length fit"
        )
    return told


def _fitting(config: Config, steps: int, episode_steps: int | None) -> Config:
    """Return what fits where nothing but the algorithm and its network is named."""
    return fit(
        type(config)(network=config.network, image_shape=config.image_shape), steps, episode_steps
    )


def _doubts(config: AgentConfig, steps: int, episode_steps: int | None) -> Iterator[str]:
    if isinstance(config, OnPolicyConfig):
        on_policy = _fitting(config, steps, episode_steps)
        if config.horizon > steps // 5:
            yield (
                f"agent.horizon = {config.horizon} leaves only {steps // config.horizon} iterations in "
                f"run.steps = {steps}; {_or_longer('horizon', on_policy.horizon, steps // 5, config.horizon)}"
            )
        yield from _doubts_of_every_run(config, steps, episode_steps, on_policy)
        return
    fitting = _fitting(config, steps, episode_steps)
    starts = config.learning_starts
    if starts >= steps:
        yield (
            f"agent.learning_starts = {starts} is not below run.steps = {steps}, so nothing will be "
            f"learned; {_or_longer('learning_starts', fitting.learning_starts, steps // 2, starts)}"
        )
        return
    ratio = config.env_steps_per_gradient_step
    updates = (steps - starts) / ratio
    if starts > steps // 2:
        yield (
            f"agent.learning_starts = {starts} is more than half of run.steps = {steps}, which leaves {updates:.0f} "
            f"gradient steps; {_or_longer('learning_starts', fitting.learning_starts, steps // 2, starts)}"
        )
    elif updates < 1000 and ratio > fitting.env_steps_per_gradient_step:
        yield (
            f"agent.env_steps_per_gradient_step = {ratio:g} leaves {updates:.0f} gradient steps in run.steps = "
            f"{steps}; agent.env_steps_per_gradient_step={fitting.env_steps_per_gradient_step:g} fits"
        )
    batch = config.batch_size
    if batch > starts and not isinstance(config, SegmentConfig):
        fits = f"learning_starts={batch}" if batch <= steps // 2 else f"batch_size={starts}"
        yield (
            f"agent.batch_size = {batch} is more than agent.learning_starts = {starts}, so the first gradients sample "
            f"the same steps again and again; agent.{fits} fits"
        )
    if config.replay != "none" and config.buffer_size > max(steps, _memory(config, steps)):
        why = (
            "so most of it will be far-policy, where nothing is learned"
            if config.replay == "refer-1"
            else "so ReF-ER keeps the policy near its very first actions"
        )
        yield (
            f"agent.buffer_size = {config.buffer_size} holds all of run.steps = {steps}, {why}; "
            f"agent.buffer_size={_memory(config, steps)} fits"
        )
    has_beta = config.replay in ("refer", "refer-2")
    if has_beta and config.beta < 1.0 and 1.0 / config.learning_rate > updates / 10.0:
        yield (
            f"agent.beta = {config.beta:g} rises over 1 / agent.learning_rate = {1.0 / config.learning_rate:.0f} "
            f"gradient steps, of which the run has {updates:.0f}, and brakes meanwhile; agent.beta=1 fits"
        )
    yield from _doubts_of_every_run(config, steps, episode_steps, fitting)


def _or_longer(key: str, value: int, most: int, present: int) -> str:
    """Return the value of a setting that fits the run, or where none does, a run that the present value fits."""
    return (
        f"agent.{key}={value} fits" if value <= most else f"run.steps={10 * present} or more fits"
    )


def _doubts_of_every_run(
    config: AgentConfig, steps: int, episode_steps: int | None, fitting: AgentConfig
) -> Iterator[str]:
    slower = 1.0 + config.annealing * steps
    if slower > 20.0:
        yield (
            f"agent.annealing = {config.annealing:g} makes the learning rate {slower:.0f} times smaller within "
            f"run.steps = {steps}; agent.annealing={min(fitting.annealing, 5.0 / steps):.2g} fits"
        )
    if episode_steps is not None and config.gamma > max(fitting.gamma, 1.0 - 0.5 / episode_steps):
        ahead = "forever" if config.gamma == 1.0 else f"{1.0 / (1.0 - config.gamma):.0f} steps"
        yield (
            f"agent.gamma = {config.gamma:g} looks {ahead} ahead, but an episode has at most {episode_steps}; "
            f"agent.gamma={fitting.gamma:g} fits"
        )
