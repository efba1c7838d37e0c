"""Settings shared by algorithms that sample segments of episodes."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any, ClassVar

from pydantic import Field

from rl_agent.config.agent import Count, Positive, Replay, Steps
from rl_agent.config.kinds import HasTrustRegion, Remembering, WithPolicy
from rl_agent.config.run_length import RunLength


class SegmentConfig(Remembering, WithPolicy):
    """Settings of algorithms that learn from segments of episodes.

    Attributes
    ----------
    importance_clip
        Upper bound of the importance weights (c of the ACER paper).
    episodes, segment
        Episodes sampled per gradient (instead of ``batch_size``), and the maximum number of consecutive steps taken
        from each (the k of the ACER paper).
    """

    unread: ClassVar[tuple[str, ...]] = ("batch_size", "center_advantages", "sigma_min")
    always_weighs: ClassVar[bool] = True

    buffer_size: Steps = 100_000
    learning_starts: Count = 2**15
    replay: Replay = "none"
    importance_clip: Positive = 5.0
    episodes: int = Field(default=24, ge=1, le=100_000)
    segment: int = Field(default=50, ge=1, le=100_000)

    def _incompatibilities(self) -> Iterator[str]:
        if self.sampler != "uniform":
            yield (
                f"algorithm = {self.algorithm} samples segments of whole episodes, where the priorities of single "
                f"steps (sampler = {self.sampler}) say nothing; use sampler = uniform"
            )
        if self.replay != "none":
            yield (
                f"algorithm = {self.algorithm} bounds its updates by truncated weights{self._and_so}, so replay must "
                f"be none, not {self.replay}"
            )
        yield from super()._incompatibilities()

    @property
    def _and_so(self) -> str:
        """Rest of the message about ``replay``: the trust region, if there is one."""
        return " and a trust region of its own" if isinstance(self, HasTrustRegion) else ""

    @property
    def sample_size(self) -> int:
        """Number of segments sampled per gradient."""
        return self.episodes

    def on_policy_ratio(self, choices: int) -> float | None:
        """Return the mean number of replay calls per on-policy call; ``None``: replay only."""
        return None

    def rules(self, run: RunLength) -> Iterator[tuple[str, Any]]:
        """Add enough segments for 256 steps, and fewer gradient steps, because each is more expensive."""
        yield from super().rules(run)
        length = min(self.segment, run.episode_steps or self.segment)
        yield "episodes", math.ceil(256 / length)
        yield "env_steps_per_gradient_step", 4.0
