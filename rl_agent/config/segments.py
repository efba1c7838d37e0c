"""Algorithms that draw segments of episodes: ACER and truncated importance sampling."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar, Literal

from pydantic import Field

from rl_agent.config.agent import (
    Count,
    Few,
    Hidden,
    Positive,
    PositiveStd,
    Replay,
    Steps,
)
from rl_agent.config.kinds import HasTrustRegion, Remembering, WithPolicy


class SegmentConfig(Remembering, WithPolicy):
    """What learns from segments of episodes.

    Attributes
    ----------
    importance_clip
        Bound of the importance weights (c of the ACER paper).
    episodes, segment
        Episodes sampled for a gradient (instead of ``batch_size``), and most steps taken of each, one after the other
        (the k of the ACER paper).
    """

    buffer_size: Steps = 100_000
    learning_starts: Count = 2**15
    replay: Replay = "none"
    importance_clip: Positive = 5.0
    episodes: int = Field(default=24, ge=1, le=100_000)
    segment: int = Field(default=50, ge=1, le=100_000)

    def _incompatibilities(self) -> Iterator[str]:
        if self.sampler != "uniform":
            yield (
                f"algorithm = {self.algorithm} draws segments of whole episodes, where the priorities of single steps "
                f"(sampler = {self.sampler}) say nothing; use sampler = uniform"
            )
        if self.replay != "none":
            yield (
                f"algorithm = {self.algorithm} bounds its updates by truncated weights{self._and_so}, so replay must "
                f"be none, not {self.replay}"
            )
        yield from super()._incompatibilities()

    @property
    def _and_so(self) -> str:
        """What bounds the updates beside the weights."""
        return " and a trust region of its own" if isinstance(self, HasTrustRegion) else ""

    @property
    def draws(self) -> int:
        """How many segments of episodes the sampler draws for a gradient."""
        return self.episodes


class ACERConfig(SegmentConfig, HasTrustRegion):
    """ACER.

    Attributes
    ----------
    dueling_samples, advantage_hidden
        Continuous actions: draws that estimate the mean advantage, and units of the hidden layers of its network, in
        the ACER paper "an additional small network"; ``None`` takes those of the others (ReF-ER paper).
    replay_ratio
        Discrete actions: mean number of replay calls after each on-policy call, which learns from what was collected
        since the last one.
    """

    policy_share: ClassVar[float] = 0.1

    algorithm: Literal["acer"] = "acer"
    tau: float = Field(default=1e-3, gt=0.0, le=1.0)
    dueling_samples: Few = 5
    advantage_hidden: Hidden | None = None
    replay_ratio: float = Field(default=4.0, ge=0.0, le=1000.0)

    def incompatibilities_with_actions(self, choices: int) -> Iterator[str]:
        """Say which settings do not go with the actions of a task."""
        if not choices and self.network == "conv":
            yield "algorithm = acer with network = conv needs discrete actions; use vracer or ppo"
        if not choices and self.replay_ratio != type(self).model_fields["replay_ratio"].default:
            yield (
                f"replay_ratio = {self.replay_ratio:g} is for discrete actions; with continuous ones algorithm = acer "
                "learns in replay alone (ReF-ER paper), so leave it out"
            )


class TISConfig(SegmentConfig):
    """Truncated importance sampling."""

    algorithm: Literal["tis"] = "tis"
    sigma: PositiveStd = 0.3


class TrustTISConfig(TISConfig, HasTrustRegion):
    """Truncated importance sampling in a trust region."""

    algorithm: Literal["trust-tis"] = "trust-tis"  # type: ignore[assignment]
