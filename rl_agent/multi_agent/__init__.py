"""Several agents in one environment: outcomes of each agent, cooperation, and one network per agent."""
