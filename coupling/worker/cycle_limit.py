"""The limit on cycles of PettingZoo's environments, told as what it is: a truncation.

At ``max_cycles`` some of them (Multiwalker) say that all agents have reached a terminal state, and others (Waterworld)
no longer say who has. Either is learned wrongly: the value of the last state has to be bootstrapped, unless it is
terminal. So an environment is made with one cycle more than it shall have, never reaches its own limit, and is cut
short here.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

__all__ = ["CycleLimit", "with_cycle_limit"]


class CycleLimit:
    """An environment of PettingZoo that is truncated after ``max_cycles`` cycles, whatever it says of its end itself.

    Parameters
    ----------
    make
        Makes the environment.
    **options
        Its keyword arguments. Without ``max_cycles`` among them the environment's own number counts, if it has one.

    Attributes
    ----------
    max_cycles
        Longest episode in cycles; ``None`` where there is no limit.
    agents
        Whose episode goes on.
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
        if name.startswith("_"):  # so that a copy that is being made does not ask itself forever
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
        """Step the environment; at the limit those who have reached no terminal state are truncated."""
        seen, rewards, terminated, truncated, infos = self._inner.step(actions)
        self.agents = list(self._inner.agents)
        self._cycles += 1
        if self._cycles == self.max_cycles:
            truncated = truncated | {name: not terminated[name] for name in self.agents}
            self.agents = []
        return seen, rewards, terminated, truncated, infos


def with_cycle_limit(make: Callable[..., Any]) -> Callable[..., Any]:
    """Return what makes an environment with its limit told as a truncation, if it is PettingZoo that makes it."""
    if not make.__module__.startswith("pettingzoo."):
        return make
    return lambda **options: CycleLimit(make, **options)


def _own_limit(environment: Any) -> int | None:
    """Return the number of cycles that an environment names, or the engine that it stands on."""
    own = environment.unwrapped
    for part in (environment, own, getattr(own, "env", None)):
        limit = getattr(part, "max_cycles", None)
        if limit is not None:
            return int(limit)
    return None
