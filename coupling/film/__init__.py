"""Films and pictures of agents: what they do in a flow or another task, and how they learned it."""
