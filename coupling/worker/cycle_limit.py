"""The limit on cycles of PettingZoo's environments, reported as a truncation.

At ``max_cycles``, some of them (Multiwalker) report all agents as terminated, and others (Waterworld) no longer report
which agents are. Both lead to wrong values, because the value of the last state has to be bootstrapped unless it is
terminal. Therefore an environment is created with one cycle more than intended, so that it never reaches its own limit,
and is truncated here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["CycleLimit", "with_cycle_limit"]


class CycleLimit:
    """PettingZoo environment that is truncated after ``max_cycles`` cycles, independent of its own limit.

    Parameters
    ----------
    make
        Function that creates the environment.
    **options
        Its keyword arguments. Without ``max_cycles``, the environment's own limit applies, if it has one.

    Attributes
    ----------
    max_cycles
        Longest episode in cycles; None without a limit.
    agents
        The agents whose episode continues.
    """

    def __init__(self, make: Callable[..., Any], **options: Any) -> None:
        self.max_cycles = options.get("max_cycles")
        self._inner: Any = None
        if self.max_cycles is None:
            self._inner = make(**options)
            self.max_cycles = _own_limit(self._inner)
        if self.max_cycles is not None:
            if self._inner is not None:
                self._inner.close()
            self._inner = make(**options | {"max_cycles": self.max_cycles + 1})
        self.agents: list[Any] = []
        self._cycles = 0

    def __getattr__(self, name: str) -> Any:
        if name.startswith("_"):  # avoids infinite recursion while the object is copied
            raise AttributeError(name)
        return getattr(self._inner, name)

    def reset(self, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Begin an episode of all agents."""
        begun = self._inner.reset(seed=seed, options=options)
        self.agents, self._cycles = list(self._inner.agents), 0
        return begun

    def step(
        self, actions: dict[Any, Any]
    ) -> tuple[dict[Any, Any], dict[Any, float], dict[Any, bool], dict[Any, bool], dict[Any, Any]]:
        """Step the environment; at the limit, agents that have not reached a terminal state are truncated."""
        seen, rewards, terminated, truncated, infos = self._inner.step(actions)
        self.agents = list(self._inner.agents)
        self._cycles += 1
        if self._cycles == self.max_cycles:
            truncated = truncated | {name: not terminated[name] for name in self.agents}
            self.agents = []
        return seen, rewards, terminated, truncated, infos


def with_cycle_limit(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return a function whose environments report their limit as a truncation, if they are of PettingZoo."""
    if not make.__module__.startswith("pettingzoo."):
        return make
    return lambda **options: CycleLimit(make, **options)


def _own_limit(environment: Any) -> int | None:
    """Return the limit on cycles of an environment, or of its underlying engine."""
    own = environment.unwrapped
    for part in (environment, own, getattr(own, "env", None)):
        limit = getattr(part, "max_cycles", None)
        if limit is not None:
            return int(limit)
    return None
