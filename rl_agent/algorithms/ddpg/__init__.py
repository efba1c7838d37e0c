"""DDPG."""
