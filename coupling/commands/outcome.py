"""What a training came to, and the list of presets, as several commands print them."""

from typing import TYPE_CHECKING

from coupling.commands import next_steps
from coupling.commands.console import print_next
from coupling.files import making_sense_of, read_json

if TYPE_CHECKING:
    from coupling.run.folder import RunFolder

__all__ = ["print_outcome", "print_presets"]


def print_outcome(folder: "RunFolder") -> None:
    """Print what a training came to: its last returns, the evaluation if it made one, and what to do next."""
    from coupling.run.log import read_status
    from coupling.run.selection import describe_choice
    from coupling.run.tables import print_results

    status = read_status(folder.status)
    if status["mean_return"] is not None:
        print(
            f"while training, in the last {status['recent_age_steps']:,} steps: "
            f"mean return {status['mean_return']:.4g}, mean length {status['mean_length']:.4g} steps, "
            f"over {status['recent_episodes']} episodes that ended and "
            f"{status['recent_under_way']} longer ones under way"
        )
    if folder.evaluation.exists():
        evaluation = read_json(folder.evaluation)
        names = {
            "before": "untrained",
            "after": "trained, mean action",
            "drawing": "trained, sampled actions",
        }
        with making_sense_of(folder.evaluation):
            rows = {name: evaluation[which] for which, name in names.items() if which in evaluation}
            after = evaluation.get("after", {})
            print_results(rows | after.get("baselines", {}), after.get("seed"))
    if choice := describe_choice(folder):
        print(f"trained: {choice}")
    print_next(next_steps.after_training(next_steps.RunState.of(folder.path, folder)))


def print_presets() -> None:
    """Print the presets that can be trained by name."""
    from coupling.run.tables import print_rows
    from coupling.settings.presets import describe_presets

    print_rows(describe_presets(), spare=("env",))
