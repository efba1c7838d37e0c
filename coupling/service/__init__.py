"""The learner's side of the service: who is connected, what came, that each step is learned from exactly once."""
