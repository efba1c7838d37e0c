"""Off-policy learners with Remember-and-Forget experience replay."""

from rl_agent.checkpoint import CheckpointError
from rl_agent.config import AgentConfig
from rl_agent.learner import Learner
from rl_agent.policy import Policy
from rl_agent.serial import evaluate, train_serial
from rl_agent.statistics import EpisodeRecord

__all__ = ["AgentConfig", "CheckpointError", "EpisodeRecord", "Learner", "Policy", "evaluate", "train_serial"]
