"""flowsim agents: list the trained agents that come with the package."""

import json

from coupling.commands import next_steps
from coupling.commands.console import print_next, reporting_errors
from coupling.commands.options import Json

__all__ = ["agents"]

SHORT_HELP = "List the trained agents that come with the package."
EXAMPLE = "flowsim agents --json"


@reporting_errors
def agents(as_json: Json = False) -> None:
    """List the trained agents that come with the package; use their names with `flowsim render` and `evaluate`."""
    from coupling.run.agents import describe_agents
    from coupling.run.tables import print_rows

    rows = describe_agents()
    if as_json:
        print(json.dumps(rows))
        return
    print_rows(rows, spare=("seed", "episodes", "steps", "learner"))
    print_next(next_steps.after_agents())
