"""Evaluation of controllers: returns over episodes with confidence intervals, compared with baselines."""

import contextlib
from collections.abc import Callable
from typing import Any

import numpy as np
from gymnasium.spaces import Box

from cases.baselines import Controller, baselines
from coupling.errors import ConfigError, RunError
from coupling.evaluation.pool import Draws, EvaluationPool
from coupling.evaluation.result import Evaluation
from coupling.worker.environments import Numbered, make_vector
from rl_agent.rollout.seeds import EVALUATION_SEED

__all__ = [
    "SAMPLED",
    "Controller",
    "PolicyController",
    "evaluate",
    "evaluate_with_baselines",
]

SAMPLED = "agent, sampled actions"
"""Name of the policy with sampled actions, evaluated in addition to that with mean actions."""


class PolicyController:
    """A trained policy as a controller, which keeps the policy's recurrent state during episodes.

    Parameters
    ----------
    policy
        A :class:`rl_agent.policy.Policy`.
    deterministic
        Whether to act with the mean of the policy instead of a sample.
    seed
        Seed of the samples.
    """

    def __init__(self, policy: Any, *, deterministic: bool, seed: int) -> None:
        self._policy, self._deterministic, self._seed = policy, deterministic, seed
        self._rng = np.random.default_rng(seed)
        self._state: Any = None

    def reseed(self, part: int) -> None:
        """Switch to the random stream of a part."""
        self._rng = np.random.default_rng((self._seed, part))

    def refuse_other_spaces(self, env: str, observations: Box, actions: Box) -> None:
        """Raise if the observations or actions of a task differ from those in training.

        Raises
        ------
        ConfigError
            If they differ; the message contains both sizes.
        """
        sizes = self._policy.sizes
        choices = int(actions.choices.n) if isinstance(actions, Numbered) else 0
        for name, here, trained in (
            ("observations", observations.shape, (*sizes.agents_axis, sizes.seen)),
            ("actions", actions.shape, (*sizes.agents_axis, sizes.action)),
            ("discrete actions", choices, sizes.choices),
        ):
            if here != trained:
                what = "are" if name == "discrete actions" else "have shape"
                raise ConfigError(
                    f"env = {env!r}: its {name} {what} {here} with these env_options, but {trained} in training"
                )

    def reset(self, n: int) -> None:
        """Start ``n`` episodes."""
        self._state = self._policy.initial_state(n)

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        """Return the policy's actions.

        Raises
        ------
        RunError
            If they are not finite, because training has diverged.
        """
        actions, self._state = self._policy.act(
            observations, self._state, deterministic=self._deterministic, rng=self._rng
        )
        if not np.isfinite(actions).all():
            raise RunError(
                "the policy returns actions that are not finite: its training has diverged"
            )
        return np.asarray(actions)


class _WholeRange:
    """A controller with actions in [-1, 1], rescaled to the bounds of a task."""

    def __init__(self, controller: Controller, space: Box) -> None:
        self._controller, self._space = controller, space

    def reseed(self, part: int) -> None:
        """Switch to the random stream of a part."""
        if isinstance(self._controller, Draws):
            self._controller.reseed(part)

    def reset(self, n: int) -> None:
        """Start ``n`` episodes."""
        self._controller.reset(n)

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        """Return the rescaled actions."""
        unit = (self._controller(observations) + 1) / 2
        # discrete actions are rounded: a margin of one half makes the first and the last as likely as the others
        margin = 0.5 if isinstance(self._space, Numbered) else 0.0
        return self._space.low - margin + unit * (self._space.high - self._space.low + 2 * margin)


def evaluate(
    env: str,
    env_options: dict[str, Any],
    controller: Controller,
    *,
    episodes: int,
    seed: int = EVALUATION_SEED,
    progress: Callable[[int, int], None] = lambda over, actions: None,
    pool: EvaluationPool | None = None,
    max_actions: int | None = None,
) -> Evaluation:
    """Run episodes and collect their results.

    Parameters
    ----------
    env, env_options
        The task.
    controller
        The controller to evaluate.
    episodes
        Number of episodes.
    seed
        Seed of the evaluation. The initial conditions depend only on it, so that controllers are compared on the same
        ones; they are never used in training (:mod:`rl_agent.rollout.seeds`).
    progress
        Called after every action with the number of finished episodes and the number of actions of the open ones.
    pool
        Pool that plays the episodes of this task; by default this process plays them.
    max_actions
        As in :class:`coupling.evaluation.pool.EvaluationPool`; used if ``pool`` is None.

    Returns
    -------
    Evaluation
        One entry per episode, in the order of the seeds.

    Notes
    -----
    Episodes are played in parallel in parts, and each environment contributes one episode per part: using the episodes
    that end first would be biased towards short ones.
    """
    alone = EvaluationPool(env, env_options, processes=1, max_actions=max_actions)
    with contextlib.nullcontext(pool) if pool else alone as who:
        return who.play(controller, episodes, seed, progress)


def baselines_of(env: str, env_options: dict[str, Any], seed: int) -> dict[str, Controller]:
    """Return the baselines of a task by name: zero and random, and those defined for the task."""
    vector = make_vector(env, env_options, 1)
    space = vector.single_action_space
    vector.close()
    assert isinstance(space, Box)
    shipped = baselines(env, space.shape, seed, env_options)
    return shipped | {"random": _WholeRange(shipped["random"], space)}


# one argument per option of the evaluation, most with a default
def evaluate_with_baselines(
    env: str,
    env_options: dict[str, Any],
    controller: Controller,
    *,
    episodes: int,
    seed: int = EVALUATION_SEED,
    sampled: Controller | None = None,
    progress: Callable[[str, int, int], None] = lambda name, over, actions: None,
    pool: EvaluationPool | None = None,
    max_actions: int | None = None,
) -> dict[str, Any]:
    """Evaluate a controller and the task's baselines on the same episodes.

    Without ``pool``, slow flows are played by processes on all cores, and ``max_actions`` is as in
    :class:`coupling.evaluation.pool.EvaluationPool`.

    Parameters
    ----------
    env, env_options, controller, episodes, seed, pool
        As in :func:`evaluate`.
    sampled
        The same policy with sampled actions, to be evaluated as well.
    progress
        As in :func:`evaluate`, with the name of the controller as an additional first argument.

    Returns
    -------
    dict
        ``task``, ``seed``, the entries of :meth:`Evaluation.summary`, and ``baselines``, which maps names to such
        entries; also ``sampled`` with such entries if it was given.
    """
    controllers = {"agent": controller} | baselines_of(env, env_options, seed)
    if sampled is not None:
        controllers = {"agent": controller, SAMPLED: sampled} | controllers
    new = EvaluationPool(env, env_options, max_actions=max_actions)
    with contextlib.nullcontext(pool) if pool else new as who:
        results = {
            name: evaluate(
                env,
                env_options,
                one,
                episodes=episodes,
                seed=seed,
                progress=lambda over, actions, name=name: progress(name, over, actions),  # type: ignore[misc]
                pool=who,
            ).summary()
            for name, one in controllers.items()
        }
    found = {"task": env, "seed": seed} | results.pop("agent")
    if sampled is not None:
        found["sampled"] = results.pop(SAMPLED)
    return found | {"baselines": results}
