"""flowsim worker: host environments for a learner."""

from pathlib import Path
from typing import Annotated

import typer

from coupling.commands import next_steps
from coupling.commands.console import loading, print_next, reporting_errors
from coupling.commands.options import expanded
from coupling.errors import ConfigError, describe_os_error

__all__ = ["worker"]

SHORT_HELP = "Host environments for a learner, on this machine or another."
EXAMPLE = "flowsim worker --connect runs/far/connection.json --outbox outbox-1"


@reporting_errors
def worker(
    connect: Annotated[
        Path,
        typer.Option(
            help="connection.json of the run, or a copy of it",
            show_default=False,
            callback=expanded,
        ),
    ],
    slot: Annotated[
        int | None, typer.Option(min=0, help="number of the worker (default: any free one)")
    ] = None,
    environments: Annotated[
        int | None,
        typer.Option(min=1, help="number of environments to host (default: as the run says)"),
    ] = None,
    outbox: Annotated[
        Path | None,
        typer.Option(
            help="file that keeps the last step, so that its replacement can send it if this worker dies; each worker "
            "needs its own",
            callback=expanded,
        ),
    ] = None,
) -> None:
    """Host environments for a learner, on this machine or another one, until its run is over."""
    with loading(f"the environments of {connect}"):
        from coupling.wire.connection import read_connection
        from coupling.worker.process import main as host

    try:
        connection = read_connection(connect)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    except FileNotFoundError as error:
        raise ConfigError(
            f"--connect: {connect} does not exist; it is in the folder of a run while `flowsim train` or `flowsim "
            "serve` is running"
        ) from error
    except OSError as error:
        raise ConfigError(f"--connect {describe_os_error(error)}") from error
    count = environments or connection.environments_at(slot)
    words = ["--connect", str(connect), "--environments", str(count)]
    words += [] if slot is None else ["--slot", str(slot)]
    words += [] if outbox is None else ["--outbox", str(outbox)]
    code = host(words)
    if code == 0:
        print_next(next_steps.after_hosting(connect))
    raise typer.Exit(code)
