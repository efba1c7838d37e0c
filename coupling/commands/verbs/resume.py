"""flowsim resume: continue a run."""

from typing import Annotated

import typer

from coupling.commands.console import loading, reporting_errors
from coupling.commands.options import Continued, Run, Trust
from coupling.commands.outcome import print_outcome

__all__ = ["resume"]

SHORT_HELP = "Continue a run from its last checkpoint."
EXAMPLE = "flowsim resume runs/demo run.steps=40000"


@reporting_errors
def resume(
    path: Run,
    overrides: Continued = None,
    discard_damaged: Annotated[
        bool,
        typer.Option(
            "--discard-damaged",
            help="if the experience log is damaged, continue without the records after the damage (kept as "
            "*.damaged)",
        ),
    ] = False,
    trust: Trust = False,
) -> None:
    """Continue a run from its last checkpoint, also after kill -9."""
    with loading(str(path)):
        from coupling.launch.prewarm import PrewarmedWorkers
        from coupling.run.folder import RunFolder
        from coupling.run.trust import config_to_run
        from coupling.settings.config import with_overrides

        words = overrides or []
        # check the owner of the folder first: a prewarmed process imports the environment that it names
        config = with_overrides(config_to_run(RunFolder.find_own(path), trust), words)
        prewarmed = PrewarmedWorkers(config)
        from coupling.run import run
        from coupling.run.screen import ConsoleScreen
    with prewarmed, ConsoleScreen() as screen:
        folder = run.resume(path, words, screen, prewarmed, discard_damaged=discard_damaged)
    print_outcome(folder)
