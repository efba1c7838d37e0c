"""The service that couples environments to the learner, the run and the command line."""
