"""What a person does next: the closing lines of the commands, by the state of what was just made.

Each line is a command that is accepted as it stands: tests/coupling/test_next_steps.py runs them all.
"""

import importlib.util
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coupling.files import read_json
from coupling.settings import EXTERNAL

if TYPE_CHECKING:
    from coupling.run.folder import RunFolder

__all__ = [
    "RunState",
    "after_agents",
    "after_bench",
    "after_evaluation",
    "after_export",
    "after_film",
    "after_hosting",
    "after_init",
    "after_plot",
    "after_presets",
    "after_report",
    "after_seeds",
    "after_simulation",
    "after_status",
    "after_training",
    "after_validation",
    "after_watching",
    "trusting",
]

Hints = list[tuple[str, str]]
"""Commands, and what each is for."""

_LONGER = 2  # times as long, for whoever wants more


@dataclass(frozen=True)
class RunState:
    """What can be done with a run depends on this.

    Attributes
    ----------
    name
        The run's folder, or the name of a shipped agent, as it was given.
    env, steps
        The task, and the planned environment steps.
    draws_itself
        Whether its environment can be filmed.
    has_episodes
        Whether there are finished episodes to draw curves from.
    is_evaluated
        Whether the trained policy was evaluated when the training was over.
    lacks_evaluation
        Whether it was to be, and is not yet.
    """

    name: Path
    env: str
    steps: int
    draws_itself: bool
    has_episodes: bool
    is_evaluated: bool
    lacks_evaluation: bool

    @classmethod
    def of(cls, name: Path, folder: "RunFolder", *, draws_itself: bool | None = None) -> "RunState":
        """Read the state of a run; what its environment can do as its last start noted, unless given."""
        config = folder.config()
        there = folder.evaluation.exists()
        evaluated = there and "after" in read_json(folder.evaluation)
        episodes = folder.episodes
        has_episodes = episodes.exists() and len(episodes.read_bytes().splitlines()) > 1
        lacks = config.run.evaluate_episodes > 0 and not evaluated
        draws = folder.draws_itself() if draws_itself is None else draws_itself
        return cls(name, config.env, config.run.steps, draws, has_episodes, evaluated, lacks)

    @property
    def stem(self) -> str:
        """Name of files that are made of the run."""
        return self.name.name or self.name.resolve().name


def after_training(run: RunState) -> Hints:
    """Return what follows a finished run: evaluate it unless that is done, look at it, train longer."""
    longer = _line("flowsim", "resume", run.name, f"run.steps={_LONGER * run.steps}")
    evaluation = [] if run.is_evaluated else _evaluation(run)
    return [*evaluation, *_look(run), (longer, "train longer")]


def after_seeds(runs: Sequence[Path]) -> Hints:
    """Return what follows trainings with several seeds: their curves, and a page about them."""
    curves = _line("flowsim", "plot", *runs, "-o", "curves.png")
    report = _line("flowsim", "report", *runs, "-o", "report.html")
    return [
        (curves, "draw their interquartile mean and its interval"),
        (report, "write a page about them"),
    ]


def after_evaluation(run: RunState, changes: Sequence[str] = ()) -> Hints:
    """Return what follows an evaluation: look at what was evaluated."""
    return _look(run, changes)


def after_export(run: RunState, output: Path) -> Hints:
    """Return what follows an export: the agent's evaluation, or how good the exported policy is."""
    return _evaluation(run if output.suffix == ".onnx" else replace(run, name=output))


def after_film(run: RunState, changes: Sequence[str] = ()) -> Hints:
    """Return what follows a film: numbers."""
    line = _line("flowsim", "evaluate", run.name, *changes, "--episodes", 48)
    return [(line, "evaluate it over more episodes")]


def after_plot(run: RunState) -> Hints:
    """Return what follows learning curves: numbers."""
    return _evaluation(run)


def after_status(run: RunState, state: str, is_running: bool) -> Hints:
    """Return what follows a look at a run: by its state, and by whether its process is still there."""
    resume = _line("flowsim", "resume", run.name)
    if state in ("died", "stopped", "failed"):
        return [(resume, "continue from its last checkpoint")]
    if state == "finished" and not run.lacks_evaluation:
        return after_training(run)
    if state == "finished" and not is_running:
        return [(resume, "evaluate it, which was interrupted")]
    return [(_line("flowsim", "watch", run.name), "follow it in a browser")]


def after_watching(run: Path, has_status: bool) -> Hints:
    """Return what follows a page that is closed: where the run stands, which need not be over."""
    line = _line("flowsim", "status", run)
    return [(line, "see how it stands, and what to do next")] if has_status else []


def after_hosting(connect: Path) -> Hints:
    """Return what follows a worker whose run is over: a look at the run, where its folder is on this machine."""
    run = connect.parent
    is_here = (run / "config.yaml").exists() and (run / "status.json").exists()
    return [(_line("flowsim", "status", run), "see what became of the run")] if is_here else []


def after_presets() -> Hints:
    """Return what follows the list of presets: a training."""
    line = "flowsim train d_cylinder_wake/quick run.name=first"
    return [(line, "train the first of the wakes")]


def after_agents() -> Hints:
    """Return what follows the list of shipped agents: a film."""
    return [("flowsim render wake -o wake.mp4", "film one of them")]


def after_report(page: Path) -> Hints:
    """Return what follows a report: look at it."""
    return [(_line("xdg-open", page), "look at it in a browser")]


def after_init(folder: Path, kind: str) -> Hints:
    """Return what follows a new task: its training."""
    there = _line("cd", folder)
    if kind == "c":
        return [(f"{there} && make && cat README.md", "compile it, and read how it is started")]
    line = _line("flowsim", "train", f"{folder.name}.yaml", "run.name=first")
    return [(f"{there} && {line}", "train it")]


def after_simulation(
    case: str,
    changes: Sequence[str],
    options: Mapping[str, Any],
    *,
    complete: bool,
    smaller_step: str | None = None,
) -> Hints:
    """Return what follows a simulation: continue it, or a smaller step where it diverged; look at its fields.

    Parameters
    ----------
    case, changes, options
        Of the command; an option that is None is not given, and one that is True takes no value.
    complete
        Whether it ran until its time was over; what ended early would end again at once.
    smaller_step
        The change that halves the time step, of a simulation that diverged. Its restart file is on the way there.
    """
    output = Path(options["-o"])
    look = (_line("paraview", output / "fields.vtkhdf"), "look at the fields")
    if smaller_step:
        key = smaller_step.partition("=")[0]
        others = [word for word in changes if not word.startswith(f"{key}=")]
        line = _simulation(case, [*others, smaller_step], options)
        return [look, (line, "run it again with half the time step")]
    if not complete:
        return [look]
    longer = {key: _LONGER * options[key] for key in ("--time", "--frames", "--snapshots")}
    restart = {"--restart-from": output / "restart.h5"}
    line = _simulation(case, changes, {**options, **longer, **restart})
    return [(line, f"continue to time {longer['--time']:g}"), look]


def after_validation(output: Path) -> Hints:
    """Return what follows a validation: its page."""
    page = output / "validation.md"
    line = _line("flowsim", "validate", "-o", output, "--page", page)
    return [(line, "write it as a page with plots")]


def after_bench(part: str, full: bool) -> Hints:
    """Return what follows a measurement: more of it, or numbers to keep."""
    if full:
        return [(f"flowsim bench {part} --full --json > {part}.json", "keep the numbers")]
    return [(f"flowsim bench {part} --full", "measure every row, which takes longer")]


def _film(name: Path, output: str | Path, changes: Sequence[str] = ()) -> str:
    """Return the command that films a run."""
    return _line("flowsim", "render", name, *changes, "-o", output)


def trusting(commands: Hints) -> Hints:
    """Return the commands for a run whose environment is trusted this time only, as they are to be typed."""
    need = ("flowsim evaluate ", "flowsim render ", "flowsim resume ")
    return [
        (f"{command} --trust" if command.startswith(need) else command, why)
        for command, why in commands
    ]


def _simulation(case: str, changes: Sequence[str], options: Mapping[str, Any]) -> str:
    """Return the line of a simulation."""
    words: list[Any] = ["flowsim", "simulate", case, *changes]
    for key, value in options.items():
        if value is True:
            words.append(key)
        elif value is not None:
            words += [key, f"{value:g}" if isinstance(value, float) else value]
    return _line(*words)


def _evaluation(run: RunState) -> Hints:
    how = "evaluate it against the baselines"
    if run.env == EXTERNAL:
        how = "evaluate it, once your program is started as for the training"
    return [(_line("flowsim", "evaluate", run.name), how)]


def _look(run: RunState, changes: Sequence[str] = ()) -> Hints:
    """Return how a run is looked at: what can be drawn is filmed."""
    if run.draws_itself and _can_be_drawn_here(run.env):
        return [(_film(run.name, f"{run.stem}.mp4", changes), "film it")]
    if run.has_episodes:
        curves = _line("flowsim", "plot", run.name, "-o", f"{run.stem}.png")
        return [(curves, "draw its learning curves")]
    return []


def _can_be_drawn_here(env: str) -> bool:
    """Tell whether this machine has what drawing a task takes; Gymnasium does not install pygame by itself."""
    import gymnasium  # which most commands do without

    spec = gymnasium.registry.get(env)
    module = str(spec.entry_point).removeprefix("gymnasium.envs.") if spec else ""
    needs_pygame = module.startswith(("classic_control", "toy_text", "box2d"))
    return not needs_pygame or importlib.util.find_spec("pygame") is not None


def _line(*words: Any) -> str:
    """Return a command as a shell takes it."""
    return shlex.join(map(str, words))
