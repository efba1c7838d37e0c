"""The learning rules, one file per algorithm."""

from rl_agent.algorithms.vracer import VRacer

__all__ = ["VRacer"]
