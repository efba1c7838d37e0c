"""flowsim report: write a report on runs."""

import sys
from pathlib import Path
from typing import Annotated

from coupling.commands import next_steps
from coupling.commands.console import begin, print_next, reporting_errors
from coupling.commands.options import Agents, written_to
from coupling.errors import ConfigError, printable_lines
from coupling.files import refuse_unwritable

__all__ = ["report"]

SHORT_HELP = "Write an HTML report on one or more runs."
EXAMPLE = "flowsim report runs/first runs/second -o report.html"


@reporting_errors
def report(
    paths: Agents,
    output: Annotated[Path, written_to("the report, a single HTML file")] = Path("report.html"),
) -> None:
    """Write a self-contained HTML report on runs: curves, evaluations, differences in settings, films."""
    begin(f"writing a report on {len(paths)} run{'s' if len(paths) > 1 else ''}")
    from coupling.film.curves import with_episodes
    from coupling.pages.report import write_report
    from coupling.run.agents import find_agents

    if output.suffix not in (".html", ".htm"):
        raise ConfigError(
            f"--output = {output}: a report is an HTML page; give a name that ends in .html"
        )
    refuse_unwritable("--output", output)
    folders, notes = with_episodes(find_agents(paths))
    for note in [*notes, *write_report(folders, output)]:
        print(printable_lines(f"flowsim: {note}"), file=sys.stderr)
    print(output)
    print_next(next_steps.after_report(output))
