"""The command `flowsim` with the deaths and the proxy of faults.py: its learner imports the task itself."""

import faults

import coupling.training  # noqa: F401  what the faults are put into
from coupling import cli, standby


class NobodyOnStandby(standby.Standby):
    """Workers are started by the launcher, as those are that take the place of the dead."""

    def __init__(self, config):
        self._processes = {}


if __name__ == "__main__":
    standby.Standby = NobodyOnStandby
    faults.arm()
    cli.main()
