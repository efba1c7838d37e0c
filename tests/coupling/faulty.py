"""The command `flowsim` with the deaths and the proxy of faults.py."""

import faults

import coupling.run.training  # noqa: F401  what the faults are put into
from coupling.commands import cli

if __name__ == "__main__":
    faults.arm()
    cli.main()
