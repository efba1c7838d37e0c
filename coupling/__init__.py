"""The service that couples environments to the learner, the run and the command line."""

import rl_agent  # noqa: F401  before NumPy: it chooses OpenBLAS's kernels
