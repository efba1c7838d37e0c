"""flowsim report: write one page about runs."""

import sys
from pathlib import Path
from typing import Annotated

from coupling.commands import next_steps
from coupling.commands.console import begin, print_next, told_in_a_sentence
from coupling.commands.options import Agents, written_to
from coupling.errors import ConfigError, printable_lines
from coupling.files import refuse_unwritable

__all__ = ["report"]

SHORT_HELP = "Write one page about runs, for a browser."
EXAMPLE = "flowsim report runs/first runs/second -o report.html"


@told_in_a_sentence
def report(
    paths: Agents,
    output: Annotated[Path, written_to("the page, one HTML file")] = Path("report.html"),
) -> None:
    """Write one page about runs that needs no network: curves, evaluations, what differs between them, films."""
    begin(f"writing about {len(paths)} run{'s' if len(paths) > 1 else ''}")
    from coupling.pages.report import write_report
    from coupling.run.agents import find_agent

    if output.suffix not in (".html", ".htm"):
        raise ConfigError(
            f"--output = {output}: a report is a page of HTML; give a name that ends in .html"
        )
    refuse_unwritable("--output", output)
    for note in write_report([find_agent(path) for path in paths], output):
        print(printable_lines(f"flowsim: {note}"), file=sys.stderr)
    print(output)
    print_next(next_steps.after_report(output))
