"""The settings of a learner, typed and validated at start: a model per algorithm.

The defaults are the values of the papers (ReF-ER: Novati & Koumoutsakos 2019, "Remember and Forget for Experience
Replay", appendices A and B, and table B.1 of NERS for SAC and TD3) unless a field says otherwise; presets override
them and name what differs.

:class:`AgentConfig` (``agent.py``) is what every learner reads. What several algorithms have in common is in
``kinds.py``, ``segments.py`` and ``on_policy.py``; the settings of each are in its folder of ``rl_agent/algorithms``,
where ``registry.py`` finds them.
"""

from rl_agent.config.agent import AgentConfig, Sampler
from rl_agent.config.kinds import (
    ActorCritic,
    DrawsSteps,
    HasTarget,
    HasTrustRegion,
    Remembering,
    TwoCritics,
    WithPolicy,
    WithTarget,
)
from rl_agent.config.on_policy import OnPolicyConfig
from rl_agent.config.registry import (
    algorithms,
    any_agent_config,
    default_settings,
    register,
    with_algorithm,
)
from rl_agent.config.segments import SegmentConfig

__all__ = [
    "ActorCritic",
    "AgentConfig",
    "DrawsSteps",
    "HasTarget",
    "HasTrustRegion",
    "OnPolicyConfig",
    "Remembering",
    "Sampler",
    "SegmentConfig",
    "TwoCritics",
    "WithPolicy",
    "WithTarget",
    "algorithms",
    "any_agent_config",
    "default_settings",
    "register",
    "with_algorithm",
]
