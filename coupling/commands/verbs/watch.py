"""flowsim watch: follow a training in a browser."""

import contextlib
import os
import sys
import threading
import webbrowser
from typing import Annotated

import typer

from coupling.commands import next_steps
from coupling.commands.console import begin, print_next, reporting_errors
from coupling.commands.options import Run

__all__ = ["watch"]

SHORT_HELP = "Follow a training in a browser."
EXAMPLE = "flowsim watch runs/first --open"


@reporting_errors
def watch(
    path: Run,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="port on 127.0.0.1 (default: any free one)")
    ] = 0,
    open_it: Annotated[
        bool, typer.Option("--open", help="open the page in the browser of this machine")
    ] = False,
) -> None:
    """Follow a training on a local web page, until Ctrl-C: curves, workers, a flow as it is simulated."""
    begin(f"watching {path}")
    from coupling.pages.watch import serve
    from coupling.run.folder import RunFolder

    folder = RunFolder.find(path)
    os.nice(10)  # on a machine without a free core, the training has priority
    with serve(folder, port) as address:
        print(address, flush=True)
        print(
            "flowsim: open this address in a browser of this machine; Ctrl-C ends it",
            file=sys.stderr,
        )
        if open_it:
            webbrowser.open(address)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()
    print()  # after ^C
    print_next(next_steps.after_watching(path, folder.status.exists()))
