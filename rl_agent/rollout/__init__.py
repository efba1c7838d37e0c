"""Interaction with environments: open episodes, exploration, input checks, statistics and seeds."""
