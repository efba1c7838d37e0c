"""A worker: the process that hosts environments and steps them as the learner says."""
