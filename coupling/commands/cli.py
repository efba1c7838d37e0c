"""The ``flowsim`` command: its subcommands in the order of ``--help``; each is a file in ``verbs/``.

The implementation of a command is imported when it is called, so that ``flowsim --help`` answers at once.
"""

from typing import Annotated

import typer

from coupling.commands.exit_codes import run_to_end
from coupling.commands.verbs import (
    agents,
    bench,
    evaluate,
    export,
    init,
    plot,
    presets,
    render,
    report,
    resume,
    serve,
    simulate,
    status,
    train,
    validate,
    watch,
    worker,
)

__all__ = ["app", "main"]

VERBS = (
    train,
    presets,
    agents,
    resume,
    serve,
    worker,
    evaluate,
    status,
    render,
    simulate,
    plot,
    export,
    report,
    watch,
    init,
    bench,
    validate,
)

app = typer.Typer(
    name="flowsim",
    help="Train, evaluate and film reinforcement-learning agents in simulated flows.",
    epilog="Example: flowsim train d_cylinder_wake/quick run.steps=20000",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # its boxes cut words at 80 columns
)


def _print_version(asked: bool) -> None:
    if asked:
        from coupling.origin import flowsim_version

        print(f"flowsim {flowsim_version()}")
        raise typer.Exit


@app.callback()
def flowsim(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="print the version and exit"
        ),
    ] = False,
) -> None:
    """Train, evaluate and film reinforcement-learning agents in simulated flows."""


for verb in VERBS:
    name = verb.__name__.rpartition(".")[2]
    app.command(name, short_help=verb.SHORT_HELP, epilog=f"Example: {verb.EXAMPLE}")(
        getattr(verb, name)
    )


def main() -> None:
    """Run the command line."""
    run_to_end(app)


if __name__ == "__main__":
    main()
