"""Settings of SAC."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar, Literal

from pydantic import Field

from rl_agent.config.agent import PositiveStd, Squash
from rl_agent.config.kinds import TwoCritics
from rl_agent.config.registry import register
from rl_agent.config.run_length import RunLength

REFER_1_C = 16.0
"""C with ReF-ER-1: no penalty keeps the policy near the memory, so with C = 4 most steps would be far-policy."""


@register("rl_agent.algorithms.sac.loss:SAC")
class SACConfig(TwoCritics):
    """SAC.

    Attributes
    ----------
    temperature, target_entropy
        Initial temperature, in units of scaled rewards, and target entropy; ``None`` is minus the number of action
        components.
    """

    title: ClassVar[str] = "SAC"
    colour: ClassVar[str] = "#d62728"

    algorithm: Literal["sac"] = "sac"
    sigma: PositiveStd = 1.0
    squash: Squash = "tanh"
    temperature: float = Field(default=0.2, gt=0.0, le=1e3)
    target_entropy: float | None = None

    def _incompatibilities(self) -> Iterator[str]:
        yield from super()._incompatibilities()
        if self.squash != "tanh":
            yield f"algorithm = sac samples from a squashed Gaussian: squash must be tanh, not {self.squash}"

    def rules(self, run: RunLength) -> Iterator[tuple[str, Any]]:
        """Add the far-policy bound for ReF-ER-1."""
        yield from super().rules(run)
        if self.replay == "refer-1":
            yield "c_max_scale", REFER_1_C
