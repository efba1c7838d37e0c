"""Off-policy learners with Remember-and-Forget experience replay."""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rl_agent.config import AgentConfig
    from rl_agent.learner import Learner
    from rl_agent.policy import Policy
    from rl_agent.rollout.in_process import evaluate, train_serial
    from rl_agent.rollout.statistics import EpisodeRecord
    from rl_agent.saving.checkpoint import CheckpointError

__all__ = [
    "AgentConfig",
    "CheckpointError",
    "EpisodeRecord",
    "Learner",
    "Policy",
    "evaluate",
    "train_serial",
]

_HOMES = {
    "AgentConfig": "config",
    "CheckpointError": "saving.checkpoint",
    "EpisodeRecord": "rollout.statistics",
    "Learner": "learner",
    "Policy": "policy",
    "evaluate": "rollout.in_process",
    "train_serial": "rollout.in_process",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first access, so that reading settings does not import torch."""
    if name in _HOMES:
        return getattr(importlib.import_module(f"rl_agent.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
