"""Defaults fitted to a run for settings that are not given, and warnings about given ones that do not fit.

The paper's settings (the fields of ``AgentConfig``) are for runs of ten million steps. ``fit`` scales them to the
length of a run and of its episodes, using the rules of their classes (``AgentConfig.rules`` and its overrides in each
algorithm's folder); docs/defaults.md lists them in a table, with measurements. ``defaults: paper`` keeps the published
values.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, TypeVar

from rl_agent.config.agent import AgentConfig
from rl_agent.config.kinds import Remembering
from rl_agent.config.on_policy import OnPolicyConfig
from rl_agent.config.run_length import RunLength
from rl_agent.config.segments import SegmentConfig
from rl_agent.config.unread import unread_by_task, unread_settings

__all__ = ["fit", "warnings_of"]

Config = TypeVar("Config", bound=AgentConfig)


def fit(config: Config, steps: int, episode_steps: int | None = None) -> Config:
    """Fill in the settings that were not given, fitted to a run.

    Parameters
    ----------
    config
        Settings; the given ones (``config.model_fields_set``) are kept.
    steps
        Environment steps of the run, over all agents.
    episode_steps
        Longest episode in steps, if known.

    Returns
    -------
    AgentConfig
        The resolved settings, all of which count as given; ``config`` itself with ``defaults: paper``.

    Raises
    ------
    ValueError
        If the run or its episodes have no step, or given settings are incompatible with the fitted ones.
    """
    if config.defaults == "paper":
        return config
    named = {key: getattr(config, key) for key in config.model_fields_set}
    fitted = dict(config.rules(RunLength(steps, episode_steps)))
    resolved: Config = type(config).model_validate(fitted | named)
    every: Config = type(config).model_validate(dict(resolved))
    return every


def warnings_of(
    config: AgentConfig,
    steps: int,
    episode_steps: int | None = None,
    agents: int = 1,
    *,
    discrete: bool = False,
    agents_per_env: int = 1,
) -> list[str]:
    """Return warnings about settings that do not fit a run, or are not read.

    Parameters
    ----------
    config, steps, episode_steps
        As in ``fit``, with resolved settings.
    agents
        Number of environments that run in parallel.
    discrete, agents_per_env
        Whether the task has discrete actions, and its number of agents per environment.

    Returns
    -------
    list of str
        One sentence per warning, with the key, its value and a fitting value as ``key=value``.
    """
    told = list(_warnings(config, steps, episode_steps))
    fitting = _fitting(config, steps, episode_steps, gamma=config.gamma)
    by_task = unread_by_task(config, discrete=discrete, agents_per_env=agents_per_env)
    told += [
        f"agent.{sentence}"
        for key, sentence in (*unread_settings(config), *by_task)
        if getattr(config, key) != getattr(fitting, key)  # a fitted value is nobody's mistake
    ]
    if not isinstance(config, Remembering):
        return told
    wait = agents * min(filter(None, (episode_steps, config.fragment_length)), default=0)
    if 2 * wait > steps:
        length = f"of up to {episode_steps} steps" if episode_steps else "without a time limit"
        told.append(
            f"workers.agents = {agents} with episodes {length} may take {wait} steps before learning can begin, of "
            f"run.steps = {steps}; fewer agents or a smaller agent.fragment_length fit"
        )
    return told


def _fitting(config: Config, steps: int, episode_steps: int | None, **given: Any) -> Config:
    """Return the fitted settings if only the algorithm, its network and ``given`` are given."""
    only = type(config)(network=config.network, image_shape=config.image_shape, **given)
    return fit(only, steps, episode_steps)


def _warnings(config: AgentConfig, steps: int, episode_steps: int | None) -> Iterator[str]:
    if isinstance(config, OnPolicyConfig):
        on_policy = _fitting(config, steps, episode_steps)
        if config.horizon > steps // 5:
            yield (
                f"agent.horizon = {config.horizon} leaves only {steps // config.horizon} iterations in "
                f"run.steps = {steps}; {_or_longer('horizon', on_policy.horizon, steps // 5, config.horizon)}"
            )
        yield from _warnings_of_every_run(config, steps, episode_steps, on_policy)
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
    assert isinstance(config, Remembering)
    fitting_buffer = config.fitted_buffer(RunLength(steps, episode_steps))
    if config.replay != "none" and config.buffer_size > max(steps, fitting_buffer):
        why = (
            "so most of it will be far-policy, where nothing is learned"
            if config.replay == "refer-1"
            else "so ReF-ER keeps the policy near its very first actions"
        )
        yield (
            f"agent.buffer_size = {config.buffer_size} holds all of run.steps = {steps}, {why}; "
            f"agent.buffer_size={fitting_buffer} fits"
        )
    has_beta = config.replay in ("refer", "refer-2")
    if has_beta and config.beta < 1.0 and 1.0 / config.learning_rate > updates / 10.0:
        yield (
            f"agent.beta = {config.beta:g} rises over 1 / agent.learning_rate = {1.0 / config.learning_rate:.0f} "
            f"gradient steps, of which the run has {updates:.0f}, and slows learning until then; agent.beta=1 fits"
        )
    yield from _warnings_of_every_run(config, steps, episode_steps, fitting)


def _or_longer(key: str, value: int, most: int, present: int) -> str:
    """Suggest a value of the setting that fits the run or, if there is none, a run length that fits ``present``."""
    return (
        f"agent.{key}={value} fits" if value <= most else f"run.steps={10 * present} or more fits"
    )


def _warnings_of_every_run(
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
