"""Settings of truncated importance sampling, with and without a trust region."""

from __future__ import annotations

from typing import ClassVar, Literal

from rl_agent.config.agent import PositiveStd
from rl_agent.config.kinds import HasTrustRegion
from rl_agent.config.registry import register
from rl_agent.config.segments import SegmentConfig


@register("rl_agent.algorithms.tis.loss:TIS")
class TISConfig(SegmentConfig):
    """Truncated importance sampling."""

    title: ClassVar[str] = "TIS"
    colour: ClassVar[str] = "#969696"

    algorithm: Literal["tis"] = "tis"
    sigma: PositiveStd = 0.3


@register("rl_agent.algorithms.tis.loss:TIS")
class TrustTISConfig(TISConfig, HasTrustRegion):
    """Truncated importance sampling with a trust region."""

    title: ClassVar[str] = "Trust-TIS"
    colour: ClassVar[str] = "#525252"

    algorithm: Literal["trust-tis"] = "trust-tis"  # type: ignore[assignment]
