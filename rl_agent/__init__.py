"""Off-policy learners with Remember-and-Forget experience replay."""
