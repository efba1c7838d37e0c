"""Small tasks whose best return is known, to see whether a learner learns with its defaults."""
