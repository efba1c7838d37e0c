"""Between the task's units and the learner's: sizes of spaces, scales of states and rewards, maps of actions."""
