"""Whether the agent got better since it was last looked at (NERS, eq. 6)."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Performance"]


@dataclass
class Performance:
    """Compares the mean return of some training episodes with that of as many before.

    Attributes
    ----------
    returns, count
        Sum of the returns since the last comparison, and how many they are.
    before
        Mean return of the comparison before; ``None`` at first.
    """

    returns: float = 0.0
    count: int = 0
    before: float | None = None

    def add(self, episode_return: float, episodes: int) -> float | None:
        """Take the return of an episode; after ``episodes`` of them, return the change since the same number before."""
        self.returns += episode_return
        self.count += 1
        if self.count < episodes:
            return None
        now, before = self.returns / self.count, self.before
        self.returns, self.count, self.before = 0.0, 0, now
        return None if before is None else now - before
