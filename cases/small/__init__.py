"""Small tasks with a known best return, to test whether a learner learns with its defaults."""
