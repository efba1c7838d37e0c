"""Off-policy learners with Remember-and-Forget experience replay.

The names below are imported when they are first asked for: OpenBLAS's kernels are chosen as soon as somebody imports
this package, which must be before NumPy is there, and must not take the seconds that torch takes.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rl_agent.blas import choose_kernels

if TYPE_CHECKING:
    from rl_agent.checkpoint import CheckpointError
    from rl_agent.config import AgentConfig
    from rl_agent.learner import Learner
    from rl_agent.policy import Policy
    from rl_agent.serial import evaluate, train_serial
    from rl_agent.statistics import EpisodeRecord

__all__ = ["AgentConfig", "CheckpointError", "EpisodeRecord", "Learner", "Policy", "evaluate", "train_serial"]

_PLACES = {
    "AgentConfig": "config",
    "CheckpointError": "checkpoint",
    "EpisodeRecord": "statistics",
    "Learner": "learner",
    "Policy": "policy",
    "evaluate": "serial",
    "train_serial": "serial",
}

choose_kernels()


def __getattr__(name: str) -> Any:
    if name not in _PLACES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_PLACES[name]}"), name)
