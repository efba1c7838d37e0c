"""The tasks of the NERS paper (Oh et al. 2021), including its sparse pendulum."""
