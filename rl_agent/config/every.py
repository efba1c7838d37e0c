"""All algorithms and their settings, by name."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field, TypeAdapter

from rl_agent.config.agent import (
    AgentConfig,
)
from rl_agent.config.choices import DQNConfig, RainbowConfig
from rl_agent.config.kinds import ActorCritic, DrawsSteps, HasTarget, Remembering, WithPolicy
from rl_agent.config.on_policy import A3CConfig, PPOConfig, TrustA3CConfig
from rl_agent.config.segments import ACERConfig, TISConfig, TrustTISConfig
from rl_agent.config.single_steps import DDPGConfig, NAFConfig, SACConfig, TD3Config, VRacerConfig

AnyAgentConfig = Annotated[
    VRacerConfig
    | DDPGConfig
    | NAFConfig
    | ACERConfig
    | TISConfig
    | TrustTISConfig
    | TD3Config
    | SACConfig
    | A3CConfig
    | TrustA3CConfig
    | PPOConfig
    | DQNConfig
    | RainbowConfig,
    Field(discriminator="algorithm"),
]
"""The settings of whichever algorithm they name."""

_ANY: TypeAdapter[AgentConfig] = TypeAdapter(AnyAgentConfig)

ALGORITHMS: dict[str, type[AgentConfig]] = {
    kind.model_fields["algorithm"].default: kind
    for kind in (
        VRacerConfig,
        DDPGConfig,
        NAFConfig,
        TISConfig,
        TrustTISConfig,
        ACERConfig,
        TD3Config,
        SACConfig,
        A3CConfig,
        TrustA3CConfig,
        PPOConfig,
        RainbowConfig,
        DQNConfig,  # after its heir: the defaults of the settings that both read are these
    )
}
"""Their settings by name."""

_KINDS: tuple[type[AgentConfig], ...] = (
    ActorCritic,
    WithPolicy,
    HasTarget,
    DrawsSteps,
    Remembering,
    AgentConfig,
)
DEFAULTS: dict[str, Any] = {
    key: field.default
    for kind in (*ALGORITHMS.values(), *_KINDS)
    for key, field in kind.model_fields.items()
}
"""The default of every setting, where an algorithm has no other."""


def with_algorithm(settings: Any) -> Any:
    """Return settings with the name of their algorithm, which they may be, or leave out."""
    if isinstance(settings, str):
        return {"algorithm": settings}
    return (
        {"algorithm": DEFAULTS["algorithm"]} | settings if isinstance(settings, dict) else settings
    )


def validate(settings: Any) -> AgentConfig:
    """Make the settings of the algorithm that they name."""
    return _ANY.validate_python(with_algorithm(settings))
