"""flowsim init: write a task to start from."""

from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from coupling.commands import next_steps
from coupling.commands.console import print_next, told_in_a_sentence
from coupling.commands.options import expanded

__all__ = ["init"]

SHORT_HELP = "Write a small task that works, to start your own from."
EXAMPLE = "flowsim init my_task --kind gymnasium"


class Kind(StrEnum):
    """What a new task is made of."""

    flow = "flow"
    gymnasium = "gymnasium"
    c = "c"


@told_in_a_sentence
def init(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            help="a new folder, whose name is the task's",
            show_default=False,
            callback=expanded,
        ),
    ],
    kind: Annotated[
        Kind,
        typer.Option(help="a FlowTask with a body, an environment of your own, or a solver in C"),
    ] = Kind.flow,
) -> None:
    """Write a small task that works, to start your own from, with its settings and a test."""
    from coupling.commands.init import init as write

    for file in write(folder, kind):
        print(file)
    print_next(next_steps.after_init(folder, kind))
