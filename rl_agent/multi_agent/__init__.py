"""Several agents in one environment: their joint spaces, what they share, and a network for each."""
