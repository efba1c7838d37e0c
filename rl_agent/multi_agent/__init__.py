"""Several agents in one environment: what each got in a step, what they share, and a network for each."""
