"""Videos of agents in flows and other tasks, and plots of learning curves."""
