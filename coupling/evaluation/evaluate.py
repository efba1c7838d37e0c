"""How good a controller is: returns over episodes with a confidence interval, and those of baselines."""

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
"""Name of a policy that samples its actions, next to the one with its mean action."""


class PolicyController:
    """A trained policy as a controller, which carries the policy's memory along the episodes.

    Parameters
    ----------
    policy
        A :class:`rl_agent.policy.Policy`.
    deterministic
        Act with the mean of the policy instead of a sample.
    seed
        Seed of the samples.
    """

    def __init__(self, policy: Any, *, deterministic: bool, seed: int) -> None:
        self._policy, self._deterministic, self._seed = policy, deterministic, seed
        self._rng = np.random.default_rng(seed)
        self._state: Any = None

    def reseed(self, part: int) -> None:
        """Sample from the stream of a part."""
        self._rng = np.random.default_rng((self._seed, part))

    def refuse_other_spaces(self, env: str, observations: Box, actions: Box) -> None:
        """Refuse a task whose observations or actions are others than those of the training.

        Raises
        ------
        ConfigError
            If it is such a task; the sentence names both sizes.
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
                    f"env = {env!r}: its {name} {what} {here} with these env_options, but {trained} where the agent "
                    "was trained"
                )

    def reset(self, n: int) -> None:
        """Begin ``n`` episodes."""
        self._state = self._policy.initial_state(n)

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        """Return the policy's actions.

        Raises
        ------
        RunError
            When they are not finite: learning has diverged.
        """
        actions, self._state = self._policy.act(
            observations, self._state, deterministic=self._deterministic, rng=self._rng
        )
        if not np.isfinite(actions).all():
            raise RunError(
                "the policy gives actions that are not finite: its learning has diverged"
            )
        return np.asarray(actions)


class _WholeRange:
    """A controller of actions in [-1, 1], stretched to the bounds of a task."""

    def __init__(self, controller: Controller, space: Box) -> None:
        self._controller, self._space = controller, space

    def reseed(self, part: int) -> None:
        """Sample from the stream of a part."""
        if isinstance(self._controller, Draws):
            self._controller.reseed(part)

    def reset(self, n: int) -> None:
        """Begin ``n`` episodes."""
        self._controller.reset(n)

    def __call__(self, observations: np.ndarray) -> np.ndarray:
        """Return the stretched actions."""
        unit = (self._controller(observations) + 1) / 2
        # numbers are rounded: the first and the last need half a number more to be as likely as the others
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
    """Run episodes and collect what they gave.

    Parameters
    ----------
    env, env_options
        The task.
    controller
        Who acts.
    episodes
        How many episodes count.
    seed
        Of the evaluation. The initial conditions depend on it alone, so two controllers are compared on the same ones;
        no training has them (:mod:`rl_agent.rollout.seeds`).
    progress
        Called after every action with the number of episodes that are over and the actions of those under way.
    pool
        Who plays the episodes of this task; None: this process.
    max_actions
        As of :class:`coupling.evaluation.pool.EvaluationPool`, if it is this process.

    Returns
    -------
    Evaluation
        One entry an episode, in the order of their seeds.

    Notes
    -----
    Episodes are played side by side in parts, and each environment gives one episode a part: taking
    whichever episodes end first would favour the short ones.
    """
    alone = EvaluationPool(env, env_options, processes=1, max_actions=max_actions)
    with contextlib.nullcontext(pool) if pool else alone as who:
        return who.play(controller, episodes, seed, progress)


def baselines_of(env: str, env_options: dict[str, Any], seed: int) -> dict[str, Controller]:
    """Return the baselines of a task by name: zero and random for any, and those that it ships."""
    vector = make_vector(env, env_options, 1)
    space = vector.single_action_space
    vector.close()
    assert isinstance(space, Box)
    shipped = baselines(env, space.shape, seed, env_options)
    return shipped | {"random": _WholeRange(shipped["random"], space)}


# each argument is a choice of the evaluation, and most have a default
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

    Without ``pool``, flows that take long are played by processes on all cores, and ``max_actions`` is as of
    :class:`coupling.evaluation.pool.EvaluationPool`.

    Parameters
    ----------
    env, env_options, controller, episodes, seed, pool
        As of :func:`evaluate`.
    sampled
        The same policy with sampled actions, where that is to be seen, too.
    progress
        As of :func:`evaluate`, called with the name of the controller first.

    Returns
    -------
    dict
        ``task``, ``seed``, what :meth:`Evaluation.summary` holds, and ``baselines``, which has the same by name, as
        has ``sampled`` where that was asked for.
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
