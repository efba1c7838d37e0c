"""flowsim serve: train or resume without starting workers."""

from pathlib import Path
from typing import Annotated

import typer

from coupling.commands import completion
from coupling.commands.console import loading, reporting_errors
from coupling.commands.options import Overrides, Trust, expanded, preset_or_word
from coupling.commands.outcome import print_outcome
from coupling.errors import ConfigError

__all__ = ["serve"]

SHORT_HELP = "Train or resume without starting workers; wait for them to connect."
EXAMPLE = "flowsim serve d_cylinder_wake/quick run.name=far workers.processes=8"


@reporting_errors
def serve(
    what: Annotated[
        str,
        typer.Argument(
            autocompletion=completion.presets_and_runs,
            metavar="PRESET|RUN",
            help="a preset, as for train, or the folder of a run to continue",
            show_default=False,
        ),
    ],
    overrides: Overrides = None,
    trust: Trust = False,
) -> None:
    """Train or resume without starting workers: print how to start them by hand, and wait for them."""
    with loading(f"the learner for {what}"):
        from coupling.run import run
        from coupling.run.folder import RunFolder
        from coupling.run.screen import ConsoleScreen
        from coupling.run.trust import config_to_run
        from coupling.settings.config import load_config
        from coupling.settings.content import preset_name

    words = overrides or []
    if any(word.startswith("workers.launcher=") for word in words):
        raise ConfigError(
            "flowsim serve starts no workers: leave out workers.launcher, or use flowsim train or resume"
        )
    words = ["workers.launcher=none", *words]
    with ConsoleScreen() as screen:
        if Path(expanded(what)).is_dir():
            path = Path(expanded(what))
            config_to_run(RunFolder.find_own(path), trust)
            folder = run.resume(path, words, screen)
        else:
            preset, words = preset_or_word(what, words)
            name = preset_name(preset) if preset else None
            folder = run.train(load_config(preset, words), screen, name=name)
    print_outcome(folder)
