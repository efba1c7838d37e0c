"""flowsim validate: compare the solver with exact and published values."""

import json
from pathlib import Path
from typing import Annotated

import typer

from coupling.commands import next_steps
from coupling.commands.console import loading, print_next, reporting_errors
from coupling.commands.options import Json, expanded, written_to
from coupling.errors import ConfigError
from coupling.files import refuse_unwritable

__all__ = ["validate"]

SHORT_HELP = "Compare the solver with exact and published values."
EXAMPLE = "flowsim validate --case taylor-green --case cylinder-100 --quick"


@reporting_errors
def validate(
    case: Annotated[
        list[str] | None,
        typer.Option(help="case to run; repeat for several (default: all)", show_default=False),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="coarse grids and wider tolerances, about a minute")
    ] = False,
    output: Annotated[
        Path,
        written_to("folder of the raw results, one JSON file for each case"),
    ] = Path("validation"),
    page: Annotated[
        Path | None,
        typer.Option(
            help="write this page and its figures from stored results, and run nothing",
            callback=expanded,
        ),
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="threads of the solver")] = 2,
    backend: Annotated[str, typer.Option(help="where the solver runs: cpu or cuda")] = "cpu",
    as_json: Json = False,
) -> None:
    """Compare the solver with exact solutions and published values; exit code 1 when a row is beyond its tolerance."""
    with loading("the solver"):
        from coupling.simulation.validation import run_cases, write_page

    if page is not None:
        if case or quick or as_json:
            raise ConfigError(
                "--page writes a page from stored results and runs nothing: leave out --case, --quick and --json"
            )
        write_page(output, page)
        print(page)
        return
    refuse_unwritable("--output", output, is_folder=True)
    report = run_cases(case or [], output, quick=quick, threads=threads, backend=backend)
    if as_json:
        print(json.dumps(report))
    else:
        from coupling.run.tables import print_rows
        from flowsim.validation.report import printed

        print_rows([printed(row) for row in report["rows"]])
        print_next(next_steps.after_validation(output))
    if not all(row["passed"] for row in report["rows"]):
        raise typer.Exit(1)
