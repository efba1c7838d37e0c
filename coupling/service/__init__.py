"""The learner's side of the service: connections and messages, with each step used for learning exactly once."""
