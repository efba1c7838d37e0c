"""The settings of a learner, typed and validated at start: a model per algorithm.

The defaults are the values of the papers (ReF-ER: Novati & Koumoutsakos 2019, "Remember and Forget for Experience
Replay", appendices A and B, and table B.1 of NERS for SAC and TD3) unless a field says otherwise; presets override
them and name what differs.

:class:`AgentConfig` (``agent.py``) is what every learner reads; what some have in common is in ``kinds.py``, and the
settings of an algorithm are beside those of its family: ``single_steps.py``, ``segments.py``, ``on_policy.py`` and
``choices.py``.
"""

from rl_agent.config.agent import AgentConfig, Algorithm, Sampler
from rl_agent.config.choices import DQNConfig, RainbowConfig
from rl_agent.config.every import ALGORITHMS, DEFAULTS, AnyAgentConfig, with_algorithm
from rl_agent.config.kinds import (
    ActorCritic,
    DrawsSteps,
    HasTarget,
    HasTrustRegion,
    Remembering,
    WithPolicy,
    WithTarget,
)
from rl_agent.config.on_policy import A3CConfig, OnPolicyConfig, PPOConfig, TrustA3CConfig
from rl_agent.config.segments import ACERConfig, SegmentConfig, TISConfig, TrustTISConfig
from rl_agent.config.single_steps import DDPGConfig, NAFConfig, SACConfig, TD3Config, VRacerConfig

__all__ = [
    "ALGORITHMS",
    "DEFAULTS",
    "A3CConfig",
    "ACERConfig",
    "ActorCritic",
    "AgentConfig",
    "Algorithm",
    "AnyAgentConfig",
    "DDPGConfig",
    "DQNConfig",
    "DrawsSteps",
    "HasTarget",
    "HasTrustRegion",
    "NAFConfig",
    "OnPolicyConfig",
    "PPOConfig",
    "RainbowConfig",
    "Remembering",
    "SACConfig",
    "Sampler",
    "SegmentConfig",
    "TD3Config",
    "TISConfig",
    "TrustA3CConfig",
    "TrustTISConfig",
    "VRacerConfig",
    "WithPolicy",
    "WithTarget",
    "with_algorithm",
]
