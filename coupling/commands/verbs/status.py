"""flowsim status: show the state of a run."""

import json
from typing import Annotated

import typer

from coupling.commands import next_steps
from coupling.commands.console import print_next, reporting_errors
from coupling.commands.options import Json, Run
from coupling.errors import ConfigError, RunError, printable_lines
from coupling.files import reporting_damage

__all__ = ["status"]

SHORT_HELP = "Show the state of a run."
EXAMPLE = "flowsim status runs/demo --json"


@reporting_errors
def status(
    path: Run,
    as_json: Json = False,
    prometheus: Annotated[
        bool, typer.Option("--prometheus", help="print metrics in the text format of Prometheus")
    ] = False,
) -> None:
    """Show the state of a run: steps, ratio, rates, agents and workers."""
    if as_json and prometheus:
        raise ConfigError("--json and --prometheus are two formats of the status; give one of them")
    from coupling.run.folder import RunFolder
    from coupling.run.status import is_running, read_status
    from coupling.run.tables import print_status

    folder = RunFolder.find(path)
    if not folder.status.exists():
        raise RunError(
            f"run {path} has no status.json: training writes it, and a shared agent has none"
        )
    now = read_status(folder.status)
    if prometheus:
        from coupling.pages.metrics import prometheus_text

        with reporting_damage(folder.status):
            metrics = prometheus_text(now)
        print(printable_lines(metrics), end="")
    elif as_json:
        print(json.dumps(now))
    else:
        with reporting_damage(folder.status):
            print_status(now)
        state = next_steps.RunState.of(path, folder)
        print_next(next_steps.after_status(state, now["state"], is_running(now)))
