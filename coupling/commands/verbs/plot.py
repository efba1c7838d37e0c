"""flowsim plot: draw learning curves."""

import sys
from pathlib import Path
from typing import Annotated

from coupling.commands import next_steps
from coupling.commands.console import begin, print_next, reporting_errors
from coupling.commands.options import Agents, written_to
from coupling.errors import printable_lines
from coupling.files import refuse_unwritable

__all__ = ["plot"]

SHORT_HELP = "Plot learning curves."
EXAMPLE = "flowsim plot runs/seed-0 runs/seed-1 runs/seed-2 -o curves.png"


@reporting_errors
def plot(
    paths: Agents,
    output: Annotated[Path, written_to("the image file")] = Path("curves.png"),
) -> None:
    """Plot learning curves against environment steps, and the interquartile mean over seeds with its interval."""
    begin(f"plotting {len(paths)} run{'s' if len(paths) > 1 else ''}")
    from coupling.film.curves import plot_runs, refuse_other_endings, with_episodes
    from coupling.run.agents import find_agents, given_name

    refuse_other_endings(output)
    refuse_unwritable("--output", output)
    folders, notes = with_episodes(find_agents(paths))
    for note in notes:
        print(printable_lines(f"flowsim: {note}"), file=sys.stderr)
    plot_runs(folders, output)
    print(output)
    print_next(next_steps.after_plot(next_steps.RunState.of(given_name(folders[0]), folders[0])))
