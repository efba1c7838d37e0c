"""Settings of NAF."""

from __future__ import annotations

from typing import ClassVar, Literal

from rl_agent.config.agent import PositiveStd
from rl_agent.config.kinds import WithTarget
from rl_agent.config.registry import register


@register("rl_agent.algorithms.naf.loss:NAF")
class NAFConfig(WithTarget):
    """NAF."""

    title: ClassVar[str] = "NAF"
    colour: ClassVar[str] = "#c49c94"
    serves_choices: ClassVar[bool] = False
    is_stochastic: ClassVar[bool] = False

    algorithm: Literal["naf"] = "naf"
    sigma: PositiveStd = 0.2
