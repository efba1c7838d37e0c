"""The evidence of the learning half: suites of trainings (mujoco.yaml), their curves and their page.

    python benchmarks/mujoco.py run --suite vracer -j 2           # complete jobs are skipped, interrupted ones go on
    python benchmarks/mujoco.py run --suite refer --tasks Hopper-v5 --seeds 1 --steps 50000
    python benchmarks/mujoco.py list                              # the jobs, and which are complete
    python benchmarks/mujoco.py plot                              # docs/images/learning_SUITE.png, docs/learning.md

Every job runs in a process of its own on one thread, with one gradient step due per environment step unless its
settings say otherwise, and leaves benchmarks/results/mujoco/SUITE/JOB.csv (environment steps, CPU and wall seconds of
the training, mean return of the training episodes) and JOB.json (settings, evaluation, machine, versions, commit).
Checkpoints are in runs/mujoco/. Suites with `sb3` need the extra of that name.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
sys.path[0] = str(ROOT)  # the folder of this file would hide the package mujoco

from benchmarks.learning.page import write_page  # noqa: E402
from benchmarks.learning.plan import Job, Suite, jobs_of, read_plan  # noqa: E402
from benchmarks.learning.queue import Places, carry_out, list_jobs  # noqa: E402


def parse() -> argparse.Namespace:
    """Read the command line."""
    common = argparse.ArgumentParser(add_help=False)
    common.add_argument("--plan", type=Path, default=ROOT / "benchmarks" / "mujoco.yaml")
    common.add_argument("--results", type=Path, default=ROOT / "benchmarks" / "results" / "mujoco")
    choice = argparse.ArgumentParser(add_help=False)
    choice.add_argument("--suite", nargs="+", help="all when left out")
    choice.add_argument("--tasks", nargs="+", help="such as HalfCheetah-v5; all of the suite when left out")
    choice.add_argument("--contestants", nargs="+", help="by name; all of the suite when left out")
    choice.add_argument("--seeds", type=int, help="how many, in place of the suite's")
    choice.add_argument("--steps", type=int, help="of each job, in place of the suite's")
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    commands = parser.add_subparsers(dest="command", required=True)
    run = commands.add_parser("run", parents=[common, choice], help="train what is not complete yet")
    run.add_argument("-j", "--processes", type=int, default=1, help="jobs at a time")
    run.add_argument("--work", type=Path, default=ROOT / "runs" / "mujoco", help="checkpoints and unfinished curves")
    run.add_argument("--checkpoint-every", type=float, default=120.0, help="seconds")
    commands.add_parser("list", parents=[common, choice], help="show the jobs")
    plot = commands.add_parser("plot", parents=[common], help="draw the curves and write the page")
    plot.add_argument("--docs", type=Path, default=ROOT / "docs")
    return parser.parse_args()


def chosen_jobs(plan: dict[str, Suite], options: argparse.Namespace) -> list[Job]:
    """Return the jobs that the command line asks for.

    Raises
    ------
    ValueError
        For a suite, task or contestant that there is not.
    """
    names = options.suite or list(plan)
    _refuse_unknown("suite", names, plan)
    shorter = {key: value for key in ("seeds", "steps") if (value := getattr(options, key)) is not None}
    jobs = [
        job
        for name in names
        for job in jobs_of(name, Suite.model_validate(plan[name].model_dump() | shorter))
    ]  # fmt: skip
    for key, wanted, of in (("task", options.tasks, "task"), ("contestant", options.contestants, "contestant")):
        if wanted:
            _refuse_unknown(key, wanted, {getattr(job, of) for job in jobs})
            jobs = [job for job in jobs if getattr(job, of) in wanted]
    return jobs


def _refuse_unknown(what: str, wanted: list[str], known: dict[str, Suite] | set[str]) -> None:
    unknown = sorted(set(wanted) - set(known))
    if unknown:
        raise ValueError(f"no {what} {', '.join(unknown)}; there are {', '.join(sorted(known))}")


def main() -> int:
    """Run, list or plot; 1 when a job failed, 2 for a wrong word, 130 when stopped."""
    options = parse()
    try:
        plan = read_plan(options.plan)
        if options.command == "plot":
            write_page(plan, options.results, options.docs)
            return 0
        jobs = chosen_jobs(plan, options)
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    if options.command == "list":
        list_jobs(jobs, options.results)
        return 0
    return carry_out(jobs, options.processes, Places(options.results, options.work, options.checkpoint_every))


if __name__ == "__main__":
    sys.exit(main())
