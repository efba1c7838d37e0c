"""flowsim bench: measure speed."""

import json
import sys
from contextlib import nullcontext
from enum import StrEnum
from typing import Annotated

import typer

from coupling.commands import next_steps
from coupling.commands.console import begin, print_next, reporting_errors, reserving_stdout
from coupling.commands.options import Json

__all__ = ["bench"]

SHORT_HELP = "Measure the speed of a part of flowsim on this machine."
EXAMPLE = "flowsim bench coupling --json"


class Part(StrEnum):
    """What can be measured."""

    solver = "solver"
    tasks = "tasks"
    learner = "learner"
    coupling = "coupling"


@reporting_errors
def bench(
    part: Annotated[Part, typer.Argument(help="part to measure", show_default=False)],
    as_json: Json = False,
    full: Annotated[
        bool,
        typer.Option(
            "--full",
            help="measure all rows; without it, only those that together take at most three "
            "minutes",
        ),
    ] = False,
) -> None:
    """Measure the speed of the solver, the tasks, the learner or the coupling on this machine."""
    begin(f"measuring the speed of the {part}")
    from coupling.origin import machine
    from coupling.run.tables import print_rows

    def say(text: str) -> None:
        print(f"measuring {text}", file=sys.stderr, flush=True)

    with reserving_stdout() if as_json else nullcontext():  # other libraries are measured as well
        if part is Part.solver:
            from flowsim.backend import cuda_is_available
            from flowsim.backend.bench import bench_solver, printed
            from flowsim.backend.bench_cuda import bench_cuda

            rows = bench_solver(say, full=full) + (bench_cuda() if cuda_is_available() else [])
            if not as_json:
                rows = [printed(row) for row in rows]
        elif part is Part.tasks:
            from cases.bench import bench_tasks
            from cases.bench import printed as printed_task

            rows = bench_tasks(say, full=full)
            if not as_json:
                rows = [printed_task(row) for row in rows]
        elif part is Part.learner:
            from coupling.bench.learner import bench_learner

            rows = bench_learner(say, full=full)
        else:
            from coupling.bench.service import standard_rows

            rows = standard_rows(say, full=full)
    if as_json:
        print(json.dumps({"machine": machine(), "rows": rows}))
    else:
        print_rows(rows)
        print_next(next_steps.after_bench(part, full))
