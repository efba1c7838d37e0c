"""What a person does next: the closing lines of the commands, with the names of what was just made."""

from pathlib import Path

__all__ = [
    "after_bench",
    "after_evaluation",
    "after_film",
    "after_init",
    "after_simulation",
    "after_training",
    "after_validation",
]

_FILMED = ("flowsim/DCylinderWake-", "flowsim/EllipticalSwimmer-", "cases.swimmer_school.")

Hints = list[tuple[str, str]]
"""Commands, and what each is for."""


def after_training(run: Path, env: str, steps: int) -> Hints:
    """Return what follows a finished run: judge it, film our tasks or draw the curves, train longer."""
    return [
        (f"flowsim evaluate {run}", "judge it beside the baselines"),
        _show(run, env),
        (f"flowsim resume {run} run.steps={2 * steps}", "train longer"),
    ]


def after_evaluation(run: Path, env: str) -> Hints:
    """Return what follows a judgement: look at what was judged."""
    return [_show(run, env)]


def after_film(run: Path) -> Hints:
    """Return what follows a film: numbers."""
    return [(f"flowsim evaluate {run} --episodes 48", "judge it over more starts")]


def after_status(run: Path, env: str, state: str, steps: int) -> Hints:
    """Return what follows a look at a run: by its state."""
    if state == "finished":
        return after_training(run, env, steps)
    if state in ("died", "stopped", "failed"):
        return [(f"flowsim resume {run}", "go on where it stopped")]
    return [(f"flowsim plot {run} -o {run.name}.png", "draw the curves so far")]


def after_init(folder: Path, kind: str) -> Hints:
    """Return what follows a new task: its training."""
    if kind == "c":
        return [(f"cd {folder} && make && cat README.md", "compile it, and read how it is started")]
    return [(f"cd {folder} && flowsim train {folder.name}.yaml run.name=first", "train it")]


def after_simulation(case: str, output: Path, duration: float) -> Hints:
    """Return what follows a simulation: going on with it."""
    onward = f"flowsim simulate {case} --time {2 * duration:g} -o {output} --restart-from {output / 'restart.h5'}"
    return [(onward, "go on"), (f"paraview {output / 'fields.vtkhdf'}", "look at the fields")]


def after_validation(output: Path) -> Hints:
    """Return what follows a validation: its page."""
    return [
        (
            f"flowsim validate -o {output} --page {output / 'validation.md'}",
            "write it as a page with plots",
        )
    ]


def after_bench(part: str, full: bool) -> Hints:
    """Return what follows a measurement: more of it, or numbers to keep."""
    if full:
        return [(f"flowsim bench {part} --full --json > {part}.json", "keep the numbers")]
    return [(f"flowsim bench {part} --full", "measure every row, which takes longer")]


def _show(run: Path, env: str) -> tuple[str, str]:
    """Return how a run is looked at: agents in flows are filmed, others may not draw themselves."""
    if env.rpartition(":")[2].startswith(_FILMED):
        return f"flowsim render {run} -o {run.name}.mp4", "film it"
    return f"flowsim plot {run} -o {run.name}.png", "draw its learning curves"
