"""Suggested next commands, printed at the end of each command according to its result.

Each suggestion is a valid command line: tests/coupling/commands/test_next_steps.py runs them all.
"""

import importlib.util
import os
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coupling.files import read_json, reporting_damage
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
    "stem_of",
    "trusting",
]

Hints = list[tuple[str, str]]
"""Commands, and the purpose of each."""

_LONGER = 2  # factor of the suggested longer training or simulation
_EPISODES = 48  # at least, in the evaluation suggested after a film


@dataclass(frozen=True)
class RunState:
    """State of a run that determines which commands can follow.

    Attributes
    ----------
    name
        The run's folder, or the name of a shipped agent, as it was given.
    env, steps
        The task and the planned environment steps.
    draws_itself
        Whether its environment can be filmed.
    has_episodes
        Whether there are finished episodes to plot.
    evaluated_episodes
        Episodes of the evaluation after the training; 0 if there was none.
    lacks_evaluation
        Whether this evaluation is planned but not done yet.
    """

    name: Path
    env: str
    steps: int
    draws_itself: bool
    has_episodes: bool
    evaluated_episodes: int
    lacks_evaluation: bool

    @classmethod
    def of(cls, name: Path, folder: "RunFolder", *, draws_itself: bool | None = None) -> "RunState":
        """Read the state of a run; ``draws_itself`` defaults to the value noted at its last start."""
        config = folder.config()
        measured = read_json(folder.evaluation) if folder.evaluation.exists() else {}
        with reporting_damage(folder.evaluation):
            evaluated = int(measured.get("after", {}).get("episodes", 0))
        episodes = folder.episodes
        has_episodes = episodes.exists() and len(episodes.read_bytes().splitlines()) > 1
        lacks = config.run.evaluate_episodes > 0 and "after" not in measured
        draws = folder.draws_itself() if draws_itself is None else draws_itself
        return cls(name, config.env, config.run.steps, draws, has_episodes, evaluated, lacks)

    @property
    def is_evaluated(self) -> bool:
        """Whether the policy was evaluated after the training."""
        return self.evaluated_episodes > 0

    @property
    def stem(self) -> str:
        """Base name of files made from the run."""
        return stem_of(self.name)


def stem_of(path: Path) -> str:
    """Return the base name of files made from a run, also if its folder is given as ``.`` or ``..``."""
    return Path(os.path.abspath(path)).name


def after_training(run: RunState) -> Hints:
    """Return the commands suggested after a finished run: evaluate it unless that is done, film it, train longer."""
    longer = _line("flowsim", "resume", run.name, f"run.steps={_LONGER * run.steps}")
    evaluation = [] if run.is_evaluated else _evaluation(run)
    return [*evaluation, *_look(run), (longer, "train longer")]


def after_seeds(runs: Sequence[Path]) -> Hints:
    """Return the commands suggested after trainings with several seeds: their curves and a report."""
    curves = _line("flowsim", "plot", *runs, "-o", "curves.png")
    report = _line("flowsim", "report", *runs, "-o", "report.html")
    return [
        (curves, "plot their interquartile mean with its confidence interval"),
        (report, "write an HTML report on them"),
    ]


def after_evaluation(run: RunState, changes: Sequence[str] = ()) -> Hints:
    """Return the commands suggested after an evaluation: a film or curves of what was evaluated."""
    return _look(run, changes)


def after_export(run: RunState, output: Path) -> Hints:
    """Return the commands suggested after an export: an evaluation of the exported agent, or of the run."""
    return _evaluation(run if output.suffix == ".onnx" else replace(run, name=output))


def after_film(run: RunState, changes: Sequence[str] = ()) -> Hints:
    """Return the commands suggested after a film: an evaluation."""
    episodes = max(_EPISODES, 2 * run.evaluated_episodes)
    line = _line("flowsim", "evaluate", run.name, *changes, "--episodes", episodes)
    return [(line, "evaluate it over more episodes")]


def after_plot(run: RunState) -> Hints:
    """Return the commands suggested after learning curves: an evaluation."""
    return _evaluation(run)


def after_status(run: RunState, state: str, is_running: bool) -> Hints:
    """Return the commands suggested after the status of a run, by its state and whether its process still runs."""
    resume = _line("flowsim", "resume", run.name)
    if state in ("died", "stopped", "failed"):
        return [(resume, "continue from its last checkpoint")]
    if state == "finished" and not run.lacks_evaluation:
        return after_training(run)
    if state == "finished" and not is_running:
        return [(resume, "finish the interrupted evaluation")]
    return [(_line("flowsim", "watch", run.name), "follow it in a browser")]


def after_watching(run: Path, has_status: bool) -> Hints:
    """Return the commands suggested after a live page is closed: the status of the run, which may still be running."""
    line = _line("flowsim", "status", run)
    return [(line, "show its state and what to do next")] if has_status else []


def after_hosting(connect: Path) -> Hints:
    """Return the commands suggested after a worker ends: the status of its run, if its folder is on this machine."""
    run = connect.parent
    is_here = (run / "config.yaml").exists() and (run / "status.json").exists()
    return [(_line("flowsim", "status", run), "show the state of the run")] if is_here else []


def after_presets() -> Hints:
    """Return the commands suggested after the list of presets: a training."""
    line = "flowsim train d_cylinder_wake/quick run.name=first"
    return [(line, "train on the small preset of the D-cylinder wake")]


def after_agents() -> Hints:
    """Return the commands suggested after the list of shipped agents: a film."""
    return [("flowsim render wake -o wake.mp4", "film one of them")]


def after_report(page: Path) -> Hints:
    """Return the commands suggested after a report: open it."""
    return [(_line("xdg-open", page), "open it in a browser")]


def after_init(folder: Path, kind: str) -> Hints:
    """Return the commands suggested after a new task: its training."""
    there = _line("cd", folder)
    if kind == "c":
        return [(f"{there} && make && cat README.md", "compile it and read how to start it")]
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
    """Return the commands suggested after a simulation: continue it or, if it diverged, halve the time step; view it.

    Parameters
    ----------
    case, changes, options
        Arguments of the command; an option that is None was not given, and one that is True takes no value.
    complete
        Whether it reached its end time; if it ended early, it would end again at once.
    smaller_step
        The change that halves the time step, if the simulation diverged. It is run again from the start, since its
        restart file belongs to the diverging solution.
    """
    output = Path(options["-o"])
    look = (_line("paraview", output / "fields.vtkhdf"), "view the fields in ParaView")
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
    """Return the commands suggested after a validation: its page."""
    page = output / "validation.md"
    line = _line("flowsim", "validate", "-o", output, "--page", page)
    return [(line, "write the results as a page with plots")]


def after_bench(part: str, full: bool) -> Hints:
    """Return the commands suggested after a measurement: measure more, or save the numbers."""
    if full:
        return [(f"flowsim bench {part} --full --json > {part}.json", "save the numbers as JSON")]
    return [(f"flowsim bench {part} --full", "measure all rows (takes longer)")]


def _film(name: Path, output: str | Path, changes: Sequence[str] = ()) -> str:
    """Return the command that films a run."""
    return _line("flowsim", "render", name, *changes, "-o", output)


def trusting(commands: Hints) -> Hints:
    """Add ``--trust`` to the commands, for a run whose environment is trusted only this time."""
    need = ("flowsim evaluate ", "flowsim render ", "flowsim resume ")
    return [
        (f"{command} --trust" if command.startswith(need) else command, why)
        for command, why in commands
    ]


def _simulation(case: str, changes: Sequence[str], options: Mapping[str, Any]) -> str:
    """Return the command of a simulation."""
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
        how = "evaluate it; start your program as for training"
    return [(_line("flowsim", "evaluate", run.name), how)]


def _look(run: RunState, changes: Sequence[str] = ()) -> Hints:
    """Return the command that films a run or, if its environment cannot be drawn, plots its curves."""
    if run.draws_itself and _can_render(run.env):
        return [(_film(run.name, f"{run.stem}.mp4", changes), "film it")]
    if run.has_episodes:
        curves = _line("flowsim", "plot", run.name, "-o", f"{run.stem}.png")
        return [(curves, "plot its learning curves")]
    return []


def _can_render(env: str) -> bool:
    """Return whether this machine has what rendering a task needs; Gymnasium does not install pygame by itself."""
    import gymnasium  # most commands do not need it

    spec = gymnasium.registry.get(env)
    module = str(spec.entry_point).removeprefix("gymnasium.envs.") if spec else ""
    needs_pygame = module.startswith(("classic_control", "toy_text", "box2d"))
    return not needs_pygame or importlib.util.find_spec("pygame") is not None


def _line(*words: Any) -> str:
    """Return a command quoted for a shell."""
    return shlex.join(map(str, words))
