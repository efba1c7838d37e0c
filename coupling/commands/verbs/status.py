"""flowsim status: show how a run stands."""

import json
from typing import Annotated

import typer

from coupling.commands import next_steps
from coupling.commands.console import print_next, told_in_a_sentence
from coupling.commands.options import Json, Run
from coupling.errors import RunError, printable_lines
from coupling.files import making_sense_of

__all__ = ["status"]

SHORT_HELP = "Show how a run stands."
EXAMPLE = "flowsim status runs/demo --json"


@told_in_a_sentence
def status(
    path: Run,
    as_json: Json = False,
    prometheus: Annotated[
        bool, typer.Option("--prometheus", help="print metrics as Prometheus reads them")
    ] = False,
) -> None:
    """Show how a run stands: steps, ratio, rates, agents and workers."""
    from coupling.run.folder import RunFolder
    from coupling.run.log import is_running, read_status
    from coupling.run.tables import print_status

    folder = RunFolder.find(path)
    if not folder.status.exists():
        raise RunError(
            f"run {path} has no status.json, which a training writes; a shared agent has none"
        )
    now = read_status(folder.status)
    if prometheus:
        from coupling.pages.metrics import prometheus_text

        with making_sense_of(folder.status):
            metrics = prometheus_text(now)
        print(printable_lines(metrics), end="")
    elif as_json:
        print(json.dumps(now))
    else:
        with making_sense_of(folder.status):
            print_status(now)
        state = next_steps.RunState.of(path, folder)
        print_next(next_steps.after_status(state, now["state"], is_running(now)))
