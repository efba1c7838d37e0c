"""What a person does next: the closing lines of the commands, with the names of what was just made."""

from pathlib import Path

__all__ = [
    "after_bench",
    "after_evaluation",
    "after_export",
    "after_film",
    "after_hosting",
    "after_init",
    "after_simulation",
    "after_status",
    "after_training",
    "after_validation",
    "after_watching",
    "trusting",
]

Hints = list[tuple[str, str]]
"""Commands, and what each is for."""


def after_training(run: Path, draws_itself: bool, steps: int) -> Hints:
    """Return what follows a finished run: judge it, film it or draw its curves, train longer."""
    return [
        (f"flowsim evaluate {run}", "judge it beside the baselines"),
        _show(run, draws_itself),
        (f"flowsim resume {run} run.steps={2 * steps}", "train longer"),
    ]


def after_evaluation(run: Path, draws_itself: bool) -> Hints:
    """Return what follows a judgement: look at what was judged."""
    return [_show(run, draws_itself)]


def after_export(run: Path, output: Path) -> Hints:
    """Return what follows an export: the agent's evaluation, or how good the exported policy is."""
    agent = output if output.suffix != ".onnx" else run
    return [(f"flowsim evaluate {agent}", "evaluate it against the baselines")]


def after_film(run: Path) -> Hints:
    """Return what follows a film: numbers."""
    return [(f"flowsim evaluate {run} --episodes 48", "judge it over more starts")]


def after_status(run: Path, draws_itself: bool, state: str, steps: int) -> Hints:
    """Return what follows a look at a run: by its state."""
    if state == "finished":
        return after_training(run, draws_itself, steps)
    if state in ("died", "stopped", "failed"):
        return [(f"flowsim resume {run}", "go on where it stopped")]
    return [(f"flowsim plot {run} -o {run.name}.png", "draw the curves so far")]


def after_watching(run: Path) -> Hints:
    """Return what follows a page that is closed: where the run stands, which need not be over."""
    return [(f"flowsim status {run}", "see how it stands, and what to do next")]


def after_hosting(connect: Path) -> Hints:
    """Return what follows a worker whose run is over: a look at the run, where its folder is on this machine."""
    run = connect.parent
    return (
        [(f"flowsim status {run}", "see what became of the run")]
        if (run / "config.yaml").exists()
        else []
    )


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


def trusting(commands: Hints) -> Hints:
    """Return the commands for a run whose environment is trusted this time only, as they are to be typed."""
    need = ("flowsim evaluate ", "flowsim render ", "flowsim resume ")
    return [
        (f"{command} --trust" if command.startswith(need) else command, why)
        for command, why in commands
    ]


def _show(run: Path, draws_itself: bool) -> tuple[str, str]:
    """Return how a run is looked at: what draws itself is filmed."""
    if draws_itself:
        return f"flowsim render {run} -o {run.name}.mp4", "film it"
    return f"flowsim plot {run} -o {run.name}.png", "draw its learning curves"
