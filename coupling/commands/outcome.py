"""The result of a training and the list of presets, as several commands print them."""

from typing import TYPE_CHECKING

from coupling.commands import next_steps
from coupling.commands.console import print_next
from coupling.files import read_json, reporting_damage

if TYPE_CHECKING:
    from coupling.run.folder import RunFolder

__all__ = ["print_outcome", "print_presets"]


def print_outcome(folder: "RunFolder") -> None:
    """Print the result of a training: its last returns, its evaluation if there is one, and what to do next."""
    from coupling.run.selection import describe_choice
    from coupling.run.status import read_status
    from coupling.run.tables import print_results

    status = read_status(folder.status)
    if status["mean_return"] is not None:
        print(
            f"while training, in the last {status['recent_age_steps']:,} steps: mean return "
            f"{status['mean_return']:.4g}, mean length {status['mean_length']:.4g} steps, over "
            f"{status['recent_episodes']} finished episodes and {status['recent_under_way']} unfinished ones that are "
            "already longer"
        )
    if folder.evaluation.exists():
        evaluation = read_json(folder.evaluation)
        names = {
            "before": "untrained",
            "after": "trained, mean action",
            "drawing": "trained, sampled actions",
        }
        with reporting_damage(folder.evaluation):
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
