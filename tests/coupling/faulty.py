"""The command `flowsim` with the deaths and the proxy of faults.py."""

import faults

import coupling.training  # noqa: F401  what the faults are put into
from coupling import cli

if __name__ == "__main__":
    faults.arm()
    cli.main()
