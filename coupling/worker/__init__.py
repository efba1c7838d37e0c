"""A worker: the process that hosts environments and steps them with the learner's actions."""
