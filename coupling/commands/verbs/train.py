"""flowsim train: begin a run, or one for each of several seeds."""

import sys
from pathlib import Path
from typing import Annotated

import typer

from coupling.commands import completion, next_steps
from coupling.commands.console import loading, print_next, reporting_errors
from coupling.commands.options import Overrides, preset_or_word
from coupling.commands.outcome import print_outcome, print_presets
from coupling.errors import ConfigError

__all__ = ["train"]

SHORT_HELP = "Train a new run, in runs/NAME."
EXAMPLE = "flowsim train d_cylinder_wake/quick run.name=demo run.steps=20000 agent.gamma=0.97"


@reporting_errors
def train(
    preset: Annotated[
        str | None,
        typer.Argument(
            autocompletion=completion.presets,
            metavar="PRESET",
            help="a YAML file, the name of a shipped preset, or just env=ID",
            show_default=False,
        ),
    ] = None,
    overrides: Overrides = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            help="train one run per seed, such as 0-4 or 0,3,7, in runs NAME-seed0 and so on; repeat the command to "
            "continue where it was stopped",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Train one run in runs/NAME, with logs and checkpoints; Ctrl-C stops it cleanly."""
    if preset is None:
        print_presets()
        raise ConfigError("no preset given: name one of these, or a YAML file")
    name, words = preset_or_word(preset, overrides)
    if seeds is not None:
        _train_each(name, words, seeds)
        return
    with loading(f"the task and the learner for {preset}"):
        from coupling.launch.prewarm import PrewarmedWorkers
        from coupling.settings.config import load_config
        from coupling.settings.content import preset_name

        config = load_config(name, words)
        prewarmed = PrewarmedWorkers(config)
        from coupling.run import run
        from coupling.run.screen import ConsoleScreen
    with prewarmed, ConsoleScreen() as screen:
        folder = run.train(config, screen, prewarmed, name=preset_name(name) if name else None)
    print_outcome(folder)


def _train_each(preset: str | None, overrides: list[str], seeds: str) -> None:
    """Train with each of several seeds, one after the other, and print their joint results."""
    with loading("the task and the learner for each seed"):
        from coupling.launch.prewarm import PrewarmedWorkers
        from coupling.pages.report import over_seeds
        from coupling.run import run
        from coupling.run.screen import ConsoleScreen
        from coupling.run.several import parse_seeds, train_each
        from coupling.run.tables import print_rows
        from coupling.settings.config import load_config

    def begin(words: list[str]) -> None:
        config = load_config(preset, words)
        with PrewarmedWorkers(config) as prewarmed, ConsoleScreen() as screen:
            run.train(config, screen, prewarmed)

    def resume(path: Path) -> None:
        from coupling.run.folder import RunFolder

        with (
            PrewarmedWorkers(RunFolder.find(path).config()) as prewarmed,
            ConsoleScreen() as screen,
        ):
            run.resume(path, [], screen, prewarmed)

    def say(text: str) -> None:
        print(f"flowsim: {text}", file=sys.stderr, flush=True)

    folders = train_each(preset, overrides, parse_seeds(seeds), begin, resume, say)
    table = over_seeds(folders)
    if table["rows"]:  # empty for a single seed
        print_rows([dict(zip(table["columns"], row, strict=True)) for row in table["rows"]])
    print_next(next_steps.after_seeds([folder.path for folder in folders]))
