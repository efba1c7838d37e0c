"""Command line of the suites of trainings: selection of jobs and their files."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from pathlib import Path

from benchmarks.learning.suites.plan import Job, Suite, jobs_of, read_plan
from benchmarks.learning.suites.queue import Places, carry_out, list_jobs
from benchmarks.studies import RESULTS

__all__ = ["add_page", "add_run_and_list", "chosen_jobs", "command_of", "run_or_list"]

ROOT = Path(__file__).resolve().parents[3]


def add_run_and_list(
    commands: argparse._SubParsersAction[argparse.ArgumentParser], name: str
) -> None:
    """Add the commands that run and list the jobs of ``benchmarks/learning/NAME.yaml``."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument(
        "--plan", type=Path, default=ROOT / "benchmarks" / "learning" / f"{name}.yaml"
    )
    common.add_argument(
        "--results", type=Path, default=RESULTS / f"{name}.parquet", help="file of the study"
    )
    common.add_argument(
        "--work", type=Path, default=ROOT / "runs" / name, help="checkpoints and unfinished curves"
    )
    common.add_argument("--suite", nargs="+", help="all when left out")
    common.add_argument(
        "--tasks", nargs="+", help="such as HalfCheetah-v5; all of the suite when left out"
    )
    common.add_argument("--methods", nargs="+", help="by name; all of the suite when left out")
    common.add_argument("--seeds", type=int, help="how many, instead of the suite's")
    common.add_argument("--steps", type=int, help="of each job, instead of the suite's")
    run = commands.add_parser("run", parents=[common], help="train what is not complete yet")
    run.add_argument("-j", "--processes", type=int, default=1, help="jobs at a time")
    run.add_argument("--checkpoint-every", type=float, default=120.0, help="seconds")
    commands.add_parser("list", parents=[common], help="show the jobs")


def chosen_jobs(plan: dict[str, Suite], options: argparse.Namespace) -> list[Job]:
    """Return the jobs selected on the command line.

    Raises
    ------
    ValueError
        For an unknown suite, task or method.
    """
    names = options.suite or list(plan)
    _refuse_unknown("suite", names, plan)
    shorter = {
        key: value for key in ("seeds", "steps") if (value := getattr(options, key)) is not None
    }
    jobs = [
        job
        for name in names
        for job in jobs_of(name, Suite.model_validate(plan[name].model_dump() | shorter))
    ]  # fmt: skip
    for key, wanted, of in (
        ("task", options.tasks, "task"),
        ("method", options.methods, "method"),
    ):
        if wanted:
            _refuse_unknown(key, wanted, {getattr(job, of) for job in jobs})
            jobs = [job for job in jobs if getattr(job, of) in wanted]
    return jobs


def _refuse_unknown(what: str, wanted: list[str], known: dict[str, Suite] | set[str]) -> None:
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        raise ValueError(f"no {what} {', '.join(unknown)}; there are {', '.join(sorted(known))}")


def run_or_list(options: argparse.Namespace) -> int:
    """Run or list the selected jobs; return 1 if a job failed, 2 on a usage error, 130 if interrupted."""
    try:
        jobs = chosen_jobs(read_plan(options.plan), options)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if options.command == "list":
        list_jobs(jobs, options.results)
        return 0
    return carry_out(
        jobs, options.processes, Places(options.results, options.work, options.checkpoint_every)
    )


def add_page(
    commands: argparse._SubParsersAction[argparse.ArgumentParser],
    name: str,
) -> None:
    """Add the command that draws the curves and writes docs/studies/NAME.md."""
    write = commands.add_parser("page", help="draw the curves and write the page")
    write.add_argument(
        "--plan", type=Path, default=ROOT / "benchmarks" / "learning" / f"{name}.yaml"
    )
    write.add_argument("--results", type=Path, default=RESULTS / f"{name}.parquet")
    write.add_argument("--page", type=Path, default=ROOT / "docs" / "studies" / f"{name}.md")


def command_of(name: str, about: str, write: Callable[[dict[str, Suite], Path, Path], None]) -> int:
    """Run or list the jobs of a study, or write its page.

    Return 1 if a job failed, 2 on a usage error, 130 if interrupted.

    Parameters
    ----------
    name
        Name of the study, its plan and its page.
    about
        One-line description of the study.
    write
        Function that writes the page from the plan and the file of results.
    """
    parser = argparse.ArgumentParser(description=about)
    commands = parser.add_subparsers(dest="command", required=True)
    add_run_and_list(commands, name)
    add_page(commands, name)
    options = parser.parse_args()
    if options.command == "page":
        write(read_plan(options.plan), options.results, options.page)
        return 0
    return run_or_list(options)
