"""Change of the agent's performance since the last comparison (NERS, eq. 6)."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Performance"]


@dataclass
class Performance:
    """Compares the mean return of recent training episodes with that of as many before.

    Attributes
    ----------
    returns, count
        Sum of the returns since the last comparison, and their number.
    before
        Mean return at the last comparison; initially ``None``.
    """

    returns: float = 0.0
    count: int = 0
    before: float | None = None

    def add(self, episode_return: float, episodes: int) -> float | None:
        """Add the return of an episode; after every ``episodes`` of them, return the change of their mean."""
        self.returns += episode_return
        self.count += 1
        if self.count < episodes:
            return None
        now, before = self.returns / self.count, self.before
        self.returns, self.count, self.before = 0.0, 0, now
        return None if before is None else now - before
