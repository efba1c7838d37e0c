"""Settings of a learner: one typed and validated model per algorithm.

The defaults are the values of the papers (ReF-ER: Novati & Koumoutsakos 2019, "Remember and Forget for Experience
Replay", appendices A and B, and table B.1 of NERS for SAC and TD3) unless a field says otherwise; presets override
them and state what differs.

:class:`AgentConfig` (``agent.py``) has the settings of every learner. Settings shared by several algorithms are in
``kinds.py``, ``segments.py`` and ``on_policy.py``; those of each algorithm are in its folder in
``rl_agent/algorithms``, where ``registry.py`` finds them.
"""

from rl_agent.config.agent import AgentConfig, Sampler
from rl_agent.config.kinds import (
    ActorCritic,
    HasTarget,
    HasTrustRegion,
    Remembering,
    SamplesSteps,
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
    "HasTarget",
    "HasTrustRegion",
    "OnPolicyConfig",
    "Remembering",
    "Sampler",
    "SamplesSteps",
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
