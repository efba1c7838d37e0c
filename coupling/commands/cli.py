"""The ``flowsim`` command: every subcommand with its arguments, in one file and in the order of ``--help``.

What a command does is elsewhere, and is imported when it is called, so that ``flowsim --help`` answers at once.
"""

import contextlib
import functools
import gc
import json
import os
import signal
import sys
import threading
import time
import webbrowser
from collections.abc import Callable, Iterator
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, ParamSpec, TypeVar

import typer

from coupling.commands import completion, hints
from coupling.commands.ending import run_to_end
from coupling.commands.lean_torch import leave_out_meta_kernels
from coupling.errors import (
    ConfigError,
    RunError,
    describe_missing,
    describe_os_error,
    printable,
    printable_lines,
)
from coupling.files import expand_path, making_sense_of, read_json, refuse_unwritable
from coupling.signals import deaf_streams, number_of

if TYPE_CHECKING:
    from coupling.run.folder import RunFolder
    from flowsim.quantities import Quantity

__all__ = ["app", "main"]

P = ParamSpec("P")
R = TypeVar("R")

app = typer.Typer(
    name="flowsim",
    help="Train agents that live in a real flow, look at them and measure them.",
    epilog="Example: flowsim train d_cylinder_wake/quick run.steps=20000",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,  # whose boxes cut words at 80 columns
)


def _expanded(value: Any) -> Any:
    """Return a path, or several, with ``~`` and ``$VARIABLES`` as a shell expands them."""
    if isinstance(value, list):
        return [_expanded(one) for one in value]
    try:
        return None if value is None else type(value)(expand_path(str(value)))
    except ValueError as error:
        raise typer.BadParameter(f"{value}: {error}") from error


Run = Annotated[
    Path,
    typer.Argument(
        autocompletion=completion.runs,
        metavar="RUN",
        help="folder of a run, such as runs/demo",
        show_default=False,
        callback=_expanded,
    ),
]
Agent = Annotated[
    Path,
    typer.Argument(
        autocompletion=completion.agents,
        metavar="RUN",
        help="folder of a run, such as runs/demo, or name of a shipped agent",
        show_default=False,
        callback=_expanded,
    ),
]
Agents = Annotated[
    list[Path],
    typer.Argument(
        autocompletion=completion.agents,
        metavar="RUN",
        help="folders of runs, or names of shipped agents",
        show_default=False,
        callback=_expanded,
    ),
]
Json = Annotated[
    bool, typer.Option("--json", help="print one JSON object on stdout and nothing else there")
]
Changes = Annotated[
    list[str] | None,
    typer.Argument(
        autocompletion=completion.changes,
        metavar="KEY=VALUE",
        help="another task for it, such as env_options.cells_per_diameter=32",
    ),
]
Fields = Annotated[
    str | None,
    typer.Option(
        metavar="NAME,...",
        help="what the film of a flow shows: vorticity (unless given), speed, pressure or several",
    ),
]
Range = Annotated[
    str | None,
    typer.Option(
        "--range", help="where its colours end: 12, or vorticity=12,speed=1.5", show_default=False
    ),
]
Fps = Annotated[
    float | None,
    typer.Option(
        min=1.0,
        max=120.0,
        help="pictures of the film a second: 25 of a flow unless given, of another task what it says itself",
    ),
]
EvaluationSeed = Annotated[
    int,
    typer.Option(
        "--seed",
        min=0,
        help="seed of the evaluation; none has the initial conditions of a training",
    ),
]
Trust = Annotated[
    bool,
    typer.Option(
        "--trust",
        help="run an environment that comes with neither flowsim nor Gymnasium, and that you did not train in",
    ),
]
Overrides = Annotated[
    list[str] | None,
    typer.Argument(
        autocompletion=completion.keys,
        metavar="KEY=VALUE",
        help="changes, such as agent.gamma=0.97",
    ),
]
Continued = Annotated[
    list[str] | None,
    typer.Argument(
        autocompletion=completion.resumable,
        metavar="KEY=VALUE",
        help="run.steps, run.evaluate_episodes, run.checkpoint_every, agent.device or workers.* but workers.agents, "
        "such as run.steps=40000; the rest of a run stays as it is",
    ),
]
CaseChanges = Annotated[
    list[str] | None,
    typer.Argument(
        autocompletion=completion.changes,
        metavar="KEY=VALUE",
        help="changes, such as reynolds=200 of a YAML file, env_options.reynolds=200 of a preset",
    ),
]


def told_in_a_sentence(command: Callable[P, R]) -> Callable[P, R]:
    """Turn the failures that are no bugs into one sentence on stderr and an exit code: 2, 1, or 128 and a signal."""

    @functools.wraps(command)
    def wrapper(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return command(*args, **kwargs)
        except ConfigError as error:
            code, sentence = 2, f"flowsim: {error}"
        except RunError as error:
            code, sentence = 1, f"flowsim: {error}"
        except KeyboardInterrupt as interruption:
            number = number_of(interruption)
            how = (
                "interrupted"
                if number == signal.SIGINT
                else f"ended by {signal.Signals(number).name}"
            )
            code, sentence = 128 + number, f"flowsim: {interruption if str(interruption) else how}"
        except OSError as error:
            if isinstance(error, BrokenPipeError) and deaf_streams():
                raise  # `flowsim ... | head`, which main ends quietly
            code, sentence = 1, f"flowsim: {describe_os_error(error)}"
        except ModuleNotFoundError as error:
            code, sentence = 2, f"flowsim: {describe_missing(error)}"
        print(printable_lines(sentence), file=sys.stderr)
        raise typer.Exit(code)

    return wrapper


def _print_version(asked: bool) -> None:
    if asked:
        from coupling.origin import flowsim_version

        print(f"flowsim {flowsim_version()}")
        raise typer.Exit


@app.callback()
def flowsim(
    version: Annotated[
        bool,
        typer.Option(
            "--version", is_eager=True, callback=_print_version, help="print the version and exit"
        ),
    ] = False,
) -> None:
    """Train agents that live in a real flow, look at them and measure them."""


def begin(what: str) -> None:
    """Say what is begun, before the imports that take seconds the first time."""
    print(f"flowsim: {what}", file=sys.stderr, flush=True)


@contextlib.contextmanager
def loading(what: str, tick: float = 0.5) -> Iterator[None]:
    """Say what is loaded, and on a terminal how long that takes already, until it is."""
    begin(f"loading {what}")
    with _counting(tick) if sys.stderr.isatty() else contextlib.nullcontext():
        # what is loaded stays: looking for garbage in it, now and at the end, takes a sixth of the
        # time
        gc.disable()
        try:
            yield
        finally:
            gc.freeze()
            gc.enable()


@contextlib.contextmanager
def _counting(tick: float) -> Iterator[None]:
    """Show how long something takes already."""
    over, began = threading.Event(), time.monotonic()

    def count() -> None:
        while not over.wait(tick):  # what others write begins at the start of the line
            print(
                f"flowsim: loading, {time.monotonic() - began:.0f} s",
                end="\r",
                file=sys.stderr,
                flush=True,
            )

    counting = threading.Thread(target=count, daemon=True)
    counting.start()
    try:
        yield
    finally:
        over.set()
        counting.join()
        print("\x1b[2K", end="\r", file=sys.stderr, flush=True)


@app.command(
    short_help="Train a new run, in runs/NAME.",
    epilog="Example: flowsim train d_cylinder_wake/quick run.name=demo run.steps=20000 agent.gamma=0.97",
)
@told_in_a_sentence
def train(
    preset: Annotated[
        str | None,
        typer.Argument(
            autocompletion=completion.presets,
            metavar="PRESET",
            help="a YAML file, the name of a shipped preset, or just env=ID",
            show_default=False,
        ),
    ] = None,
    overrides: Overrides = None,
    seeds: Annotated[
        str | None,
        typer.Option(
            help="train once with each of these seeds, such as 0-4 or 0,3,7, in runs NAME-seed0 and so on; "
            "given again, the command goes on where it was stopped",
            show_default=False,
        ),
    ] = None,
) -> None:
    """Train one run in runs/NAME, with logs and checkpoints; Ctrl-C stops it cleanly."""
    if preset is None:
        _print_presets()
        raise ConfigError("which preset? Give one of these names, or a YAML file")
    name, words = _preset_or_word(preset, overrides)
    if seeds is not None:
        _train_each(name, words, seeds)
        return
    with loading(f"the task and the learner for {preset}"):
        from coupling.launch.standby import Standby
        from coupling.settings.config import load_config

        standby = Standby(load_config(name, words))
        from coupling.run import run
        from coupling.run.screen import ConsoleScreen
    with standby, ConsoleScreen() as screen:
        folder = run.train(name, words, screen, standby)
    _print_outcome(folder)


def _train_each(preset: str | None, overrides: list[str], seeds: str) -> None:
    """Train with each of several seeds, one after the other, and print what they came to together."""
    with loading("the task and the learner for each seed"):
        from coupling.commands.report import over_seeds
        from coupling.commands.tables import print_rows
        from coupling.launch.standby import Standby
        from coupling.run import run
        from coupling.run.screen import ConsoleScreen
        from coupling.run.several import parse_seeds, train_each
        from coupling.settings.config import load_config

    def begin(words: list[str]) -> None:
        with Standby(load_config(preset, words)) as standby, ConsoleScreen() as screen:
            run.train(preset, words, screen, standby)

    def resume(path: Path) -> None:
        from coupling.run.folder import RunFolder

        with Standby(RunFolder.find(path).config()) as standby, ConsoleScreen() as screen:
            run.resume(path, [], screen, standby)

    def say(text: str) -> None:
        print(f"flowsim: {text}", file=sys.stderr, flush=True)

    folders = train_each(preset, overrides, parse_seeds(seeds), begin, resume, say)
    table = over_seeds(folders)
    if table["rows"]:  # none of a single seed
        print_rows([dict(zip(table["columns"], row, strict=True)) for row in table["rows"]])
    _print_next(hints.after_seeds([folder.path for folder in folders]))


def _preset_or_word(preset: str, overrides: list[str] | None) -> tuple[str | None, list[str]]:
    """Take the first argument for a change of the defaults where it is one: `flowsim train env=CartPole-v1`."""
    words = overrides or []
    return (None, [preset, *words]) if "=" in preset else (preset, words)


@app.command(
    short_help="List the presets that can be trained by name.",
    epilog="Example: flowsim presets --json",
)
@told_in_a_sentence
def presets(as_json: Json = False) -> None:
    """List the presets that can be trained by name."""
    from coupling.settings.presets import describe_presets

    if as_json:
        print(json.dumps(describe_presets()))
        return
    _print_presets()
    _print_next(hints.after_presets())


@app.command(
    short_help="List the trained agents that come with the package.",
    epilog="Example: flowsim agents --json",
)
@told_in_a_sentence
def agents(as_json: Json = False) -> None:
    """List the trained agents that come with the package; `flowsim render` and `evaluate` take their names."""
    from coupling.commands.tables import print_rows
    from coupling.run.agents import describe_agents

    rows = describe_agents()
    if as_json:
        print(json.dumps(rows))
        return
    print_rows(rows, spare=("seed", "episodes", "steps", "learner"))
    _print_next(hints.after_agents())


@app.command(
    short_help="Continue a run from its last checkpoint.",
    epilog="Example: flowsim resume runs/demo run.steps=40000",
)
@told_in_a_sentence
def resume(
    path: Run,
    overrides: Continued = None,
    discard_damaged: Annotated[
        bool,
        typer.Option(
            "--discard-damaged",
            help="go on without what lies behind a damage of the experience log; it is kept as *.damaged",
        ),
    ] = False,
    trust: Trust = False,
) -> None:
    """Continue a run from its last checkpoint, also after kill -9."""
    with loading(str(path)):
        from coupling.launch.standby import Standby
        from coupling.run.folder import RunFolder
        from coupling.run.trust import refuse_unknown_code
        from coupling.settings.config import with_overrides

        words = overrides or []
        # who owns the folder is asked first: a standby imports the environment that it names
        config = with_overrides(RunFolder.find_own(path).config(), words)
        refuse_unknown_code(config.env, trust)
        standby = Standby(config)
        from coupling.run import run
        from coupling.run.screen import ConsoleScreen
    with standby, ConsoleScreen() as screen:
        folder = run.resume(path, words, screen, standby, discard_damaged=discard_damaged)
    _print_outcome(folder)


@app.command(
    short_help="Train or resume without starting workers, and wait for them.",
    epilog="Example: flowsim serve d_cylinder_wake/quick run.name=far workers.processes=8",
)
@told_in_a_sentence
def serve(
    what: Annotated[
        str,
        typer.Argument(
            autocompletion=completion.presets_and_runs,
            metavar="PRESET|RUN",
            help="as for train, or the run to continue",
            show_default=False,
        ),
    ],
    overrides: Overrides = None,
    trust: Trust = False,
) -> None:
    """Train or resume without starting workers: say how they are started by hand, and wait for them."""
    with loading(f"the learner for {what}"):
        from coupling.run import run
        from coupling.run.folder import RunFolder
        from coupling.run.screen import ConsoleScreen
        from coupling.run.trust import refuse_unknown_code

    words = overrides or []
    if any(word.startswith("workers.launcher=") for word in words):
        raise ConfigError(
            "flowsim serve starts no workers, so workers.launcher is for flowsim train and resume"
        )
    words = ["workers.launcher=none", *words]
    with ConsoleScreen() as screen:
        if Path(_expanded(what)).is_dir():
            path = Path(_expanded(what))
            refuse_unknown_code(RunFolder.find_own(path).config().env, trust)
            folder = run.resume(path, words, screen)
        else:
            folder = run.train(*_preset_or_word(what, words), screen)
    _print_outcome(folder)


@app.command(
    short_help="Host environments for a learner, on this machine or another.",
    epilog="Example: flowsim worker --connect runs/far/connection.json",
)
@told_in_a_sentence
def worker(
    connect: Annotated[
        Path,
        typer.Option(
            help="connection.json of the run, or a copy of it",
            show_default=False,
            callback=_expanded,
        ),
    ],
    slot: Annotated[
        int | None, typer.Option(min=0, help="its number; any free one unless given")
    ] = None,
    environments: Annotated[
        int | None, typer.Option(min=1, help="how many it hosts; as the run says unless given")
    ] = None,
    outbox: Annotated[
        Path | None,
        typer.Option(
            help="file that keeps its last step for the worker that takes its place if it dies",
            callback=_expanded,
        ),
    ] = None,
) -> None:
    """Host environments for a learner, on this machine or another one, until its run is over."""
    with loading(f"the environments of {connect}"):
        from coupling.wire.connection import read_connection
        from coupling.worker.process import main as host

    try:
        connection = read_connection(connect)
    except ValueError as error:
        raise ConfigError(str(error)) from error
    except OSError as error:
        raise ConfigError(f"--connect {describe_os_error(error)}") from error
    count = environments or connection.environments_at(slot)
    words = ["--connect", str(connect), "--environments", str(count)]
    words += [] if slot is None else ["--slot", str(slot)]
    words += [] if outbox is None else ["--outbox", str(outbox)]
    code = host(words)
    if code == 0:
        _print_next(hints.after_hosting(connect))
    raise typer.Exit(code)


@app.command(
    short_help="Evaluate a trained agent against the task's baselines.",
    epilog="Example: flowsim evaluate runs/demo --episodes 50 --json",
)
@told_in_a_sentence
def evaluate(
    path: Agent,
    changes: Changes = None,
    episodes: Annotated[int, typer.Option(min=1, help="episodes of each controller")] = 24,
    deterministic: Annotated[
        bool | None,
        typer.Option(
            help="the policy's mean action alone, or sampled actions alone; unless given both, where it samples"
        ),
    ] = None,
    seed: EvaluationSeed = 0,
    trust: Trust = False,
    max_actions: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="actions after which an episode is cut: the task's own time limit unless given, or 10,000",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Evaluate a trained agent against the task's baselines, with 95 % bootstrap intervals of the mean return."""
    with loading(f"the agent of {path}"):
        from coupling.run.agents import find_agent
        from coupling.run.evaluate import SAMPLED, evaluate_with_baselines
        from coupling.run.policies import load_controller
        from coupling.run.screen import ConsoleScreen
        from coupling.run.trust import refuse_unknown_code
        from coupling.settings import EXTERNAL
        from coupling.settings.config import on_another_task
        from coupling.worker.named import draws_itself

    folder = find_agent(path)
    config = on_another_task(folder.config(), changes or [])
    refuse_unknown_code(config.env, trust)
    is_external = config.env == EXTERNAL
    has_both = deterministic is None and config.agent.is_stochastic and not is_external
    with ConsoleScreen() as screen:
        if is_external:
            from coupling.run.external_evaluation import evaluate_external

            result = evaluate_external(
                folder, config, screen,
                episodes=episodes, deterministic=deterministic is not False, seed=seed,
                max_actions=max_actions,
            )  # fmt: skip
        else:
            result = evaluate_with_baselines(
                config.env,
                config.env_options,
                load_controller(folder, deterministic=deterministic is not False, seed=seed),
                episodes=episodes,
                seed=seed,
                sampled=load_controller(folder, deterministic=False, seed=seed)
                if has_both
                else None,
                progress=lambda name, over, actions: screen.evaluating(
                    name, over, episodes, actions
                ),
                max_actions=max_actions,
            )
    if as_json:
        print(json.dumps(result | {"env_options": config.env_options}))
    else:
        name = SAMPLED if deterministic is False else "agent, mean action" if has_both else "agent"
        also = {SAMPLED: result["sampled"]} if has_both else {}
        # after the first one, the episodes of a program outside Python are its own
        known = None if is_external else seed
        _print_results({name: result} | also | result["baselines"], known)
        state = hints.RunState.of(path, folder, draws_itself=draws_itself(config.env))
        _print_next(hints.after_evaluation(state, changes or []), trust)


@app.command(
    short_help="Show how a run stands.",
    epilog="Example: flowsim status runs/demo --json",
)
@told_in_a_sentence
def status(
    path: Run,
    as_json: Json = False,
    prometheus: Annotated[
        bool, typer.Option("--prometheus", help="print metrics as Prometheus reads them")
    ] = False,
) -> None:
    """Show how a run stands: steps, ratio, rates, agents and workers."""
    from coupling.commands.tables import print_status
    from coupling.run.folder import RunFolder
    from coupling.run.log import is_running, read_status

    folder = RunFolder.find(path)
    if not folder.status.exists():
        raise RunError(f"run {path} has no status yet; it is written once the training begins")
    now = read_status(folder.status)
    if prometheus:
        from coupling.commands.metrics import prometheus_text

        with making_sense_of(folder.status):
            metrics = prometheus_text(now)
        print(printable_lines(metrics), end="")
    elif as_json:
        print(json.dumps(now))
    else:
        with making_sense_of(folder.status):
            print_status(now)
        state = hints.RunState.of(path, folder)
        _print_next(hints.after_status(state, now["state"], is_running(now)))


@app.command(
    short_help="Film a trained agent next to the baselines.",
    epilog="Example: flowsim render runs/demo -o wake.mp4 --beside zero --beside pd",
)
@told_in_a_sentence
def render(
    path: Agent,
    changes: Changes = None,
    output: Annotated[
        Path | None,
        typer.Option(
            "-o",
            "--output",
            callback=_expanded,
            help="the film: .mp4, .gif, .webp, .png of its end, or frame-%04d.png; the run's name.mp4 unless given",
        ),
    ] = None,
    beside: Annotated[
        list[str] | None, typer.Option(help="baselines shown beside the agent (zero unless given)")
    ] = None,
    starts: Annotated[
        int, typer.Option(min=1, help="starts of the agent, all at once; the first one is large")
    ] = 6,
    actions: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="length of the film in actions, at most: 100 of a flow unless given, 300 of another task",
        ),
    ] = None,
    gif: Annotated[bool, typer.Option(help="write a GIF beside a .mp4, too")] = True,
    deterministic: Annotated[
        bool, typer.Option(help="act with the mean of the policy, or draw from it")
    ] = True,
    seed: EvaluationSeed = 0,
    trust: Trust = False,
    fields: Fields = None,
    limits: Range = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="keep the agent in the middle of half of the box")
    ] = False,
    fps: Fps = None,
    frames_per_action: Annotated[
        int | None, typer.Option(min=1, max=100, help="pictures of each action (5 unless given)")
    ] = None,
) -> None:
    """Film a trained agent from several starts beside the baselines; of a flow with its actions and their effort."""
    with loading(f"the agent of {path}"):
        from coupling.commands.render import evaluated
        from coupling.commands.render import render as film
        from coupling.run.agents import find_agent

    output = Path(f"{path.name}.mp4") if output is None else output
    files = [output, output.with_suffix(".gif")] if gif and output.suffix == ".mp4" else [output]
    look: dict[str, Any] = {}
    if fields or limits:
        look["quantities"] = _quantities(fields, limits)
    if follow:
        look["follow"] = follow
    if frames_per_action:
        look["frames_per_action"] = frames_per_action
    endings = film(
        path, files, changes=changes or [], beside=beside or ["zero"], starts=starts, actions=actions,
        deterministic=deterministic, seed=seed, fps=fps, look=look, trust=trust,
    )  # fmt: skip
    for ending in endings:
        done = f"{ending.how} after {ending.actions} actions"
        print(f"{ending.title}: return {ending.episode_return:.2f}, {done}")
    for who, how in evaluated(
        path, changes or [], beside=beside or ["zero"], deterministic=deterministic
    ):
        print(f"{who}: {how}")
    for file in files:
        print(file)
    state = hints.RunState.of(path, find_agent(path), draws_itself=True)
    _print_next(hints.after_film(state, changes or []), trust)


def _quantities(names: str | None, ranges: str | None) -> "list[Quantity]":
    """Return what a film shall show."""
    from flowsim.quantities import choose

    try:
        return choose(names or "vorticity", ranges)
    except ValueError as error:
        raise ConfigError(f"--{error}") from error


@app.command(
    short_help="Run the solver alone: forces, fields, a restart file, a film.",
    epilog="Example: flowsim simulate d_cylinder_wake/quick --time 10 -o wake",
)
@told_in_a_sentence
def simulate(
    case: Annotated[
        str,
        typer.Argument(
            autocompletion=completion.cases,
            metavar="CASE",
            help="preset of a flow task, or a YAML file with a grid and bodies",
            show_default=False,
            callback=_expanded,
        ),
    ],
    overrides: CaseChanges = None,
    duration: Annotated[
        float, typer.Option("--time", min=1e-6, help="time in D/U from the very beginning")
    ] = 10.0,
    output: Annotated[
        Path, typer.Option("-o", "--output", callback=_expanded, help="folder to write into")
    ] = Path("simulation"),
    frames: Annotated[int, typer.Option(min=1, help="pictures of the film")] = 200,
    snapshots: Annotated[int, typer.Option(min=1, help="times in the fields")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="seed of a task's start")] = 0,
    restart_from: Annotated[
        Path | None,
        typer.Option(
            help="restart.h5 of a run of this case, which continues bit for bit",
            show_default=False,
            callback=_expanded,
        ),
    ] = None,
    max_size: Annotated[
        str | None,
        typer.Option(
            help="what the folder may hold, in MB or as in 2GB: rows and times are thinned to keep below"
        ),
    ] = None,
    control_volumes: Annotated[
        bool, typer.Option(help="measure forces by control volumes, too, which takes time")
    ] = True,
    fields: Fields = None,
    limits: Range = None,
    follow: Annotated[
        int | None,
        typer.Option(min=0, metavar="BODY", help="keep this body in the middle, numbered from 0"),
    ] = None,
    fps: Annotated[
        float | None,
        typer.Option(min=1.0, max=120.0, help="pictures of the film a second: 25 unless given"),
    ] = None,
) -> None:
    """Run the solver alone: forces to CSV, fields for ParaView, restart file, the vorticity as a film."""
    with loading(f"the solver for {case}"):
        from coupling.commands.case import load_case, smaller_step
        from coupling.commands.simulate import simulate as run_solver
        from coupling.commands.simulation_files import parse_size
        from coupling.run.screen import progress_bar

    refuse_unwritable("--output", output, is_folder=True)
    size = None if max_size is None else parse_size(max_size)
    shown = _quantities(fields, limits)
    simulation = load_case(case, overrides or [], seed)
    print(simulation.describe(), file=sys.stderr)
    with progress_bar("simulating") as progress:
        ending = run_solver(
            simulation,
            duration,
            output,
            frames=frames,
            snapshots=snapshots,
            restart_from=restart_from,
            max_size=size,
            control_volumes=control_volumes,
            title=Path(case).stem if Path(case).is_file() else case,
            shown=shown,
            follow=follow,
            **({"fps": fps} if fps else {}),
            say=lambda text: print(f"flowsim: {text}", file=sys.stderr),
            progress=progress,
        )
    print(f"{output}: {ending.why}")
    diverged = bool(simulation.diverged[0])
    options: dict[str, Any] = {
        "--time": duration, "-o": output, "--frames": frames, "--snapshots": snapshots, "--seed": seed or None,
        "--max-size": max_size, "--no-control-volumes": None if control_volumes else True, "--fields": fields,
        "--range": limits, "--follow": follow, "--fps": fps,
    }  # fmt: skip
    _print_next(
        hints.after_simulation(
            case,
            overrides or [],
            options,
            complete=ending.complete,
            smaller_step=smaller_step(case, simulation) if diverged else None,
        )
    )
    if diverged:
        raise typer.Exit(1)


@app.command(
    short_help="Draw learning curves.",
    epilog="Example: flowsim plot runs/seed-0 runs/seed-1 runs/seed-2 -o curves.png",
)
@told_in_a_sentence
def plot(
    paths: Agents,
    output: Annotated[
        Path, typer.Option("-o", "--output", callback=_expanded, help="the picture")
    ] = Path("curves.png"),
) -> None:
    """Draw learning curves: return and survival against steps, the mean over seeds with a band."""
    begin(f"drawing {len(paths)} run{'s' if len(paths) > 1 else ''}")
    from coupling.commands.plot import plot_runs, refuse_other_endings
    from coupling.run.agents import find_agent

    refuse_other_endings(output)
    refuse_unwritable("--output", output)
    folders = [find_agent(path) for path in paths]
    plot_runs(folders, output)
    print(output)
    _print_next(hints.after_plot(hints.RunState.of(paths[0], folders[0])))


@app.command(
    short_help="Write a trained policy as ONNX, or as an agent to share.",
    epilog="Example: flowsim export runs/first -o policy.onnx",
)
@told_in_a_sentence
def export(
    path: Agent,
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            callback=_expanded,
            help="policy.onnx for an ONNX file (extra onnx), or a new folder for an agent to share",
            show_default=False,
        ),
    ],
) -> None:
    """Write a trained policy as an ONNX file, or as the folder of an agent that others can use."""
    with loading(f"the agent of {path}"):
        from coupling.commands.export import export as write
        from coupling.run.agents import find_agent

        folder = find_agent(path)
        said = write(folder, output)
    print(said)
    _print_next(hints.after_export(hints.RunState.of(path, folder), output))


@app.command(
    short_help="Write one page about runs, for a browser.",
    epilog="Example: flowsim report runs/first runs/second -o report.html",
)
@told_in_a_sentence
def report(
    paths: Agents,
    output: Annotated[
        Path, typer.Option("-o", "--output", callback=_expanded, help="the page, one HTML file")
    ] = Path("report.html"),
) -> None:
    """Write one page about runs that needs no network: curves, evaluations, what differs between them, films."""
    begin(f"writing about {len(paths)} run{'s' if len(paths) > 1 else ''}")
    from coupling.commands.report import write_report
    from coupling.run.agents import find_agent

    if output.suffix not in (".html", ".htm"):
        raise ConfigError(
            f"--output = {output}: a report is a page of HTML; give a name that ends in .html"
        )
    refuse_unwritable("--output", output)
    for note in write_report([find_agent(path) for path in paths], output):
        print(f"flowsim: {note}", file=sys.stderr)
    print(output)
    _print_next(hints.after_report(output))


@app.command(
    short_help="Follow a training in a browser.",
    epilog="Example: flowsim watch runs/first --open",
)
@told_in_a_sentence
def watch(
    path: Run,
    port: Annotated[
        int, typer.Option(min=0, max=65535, help="on 127.0.0.1; any free one unless given")
    ] = 0,
    open_it: Annotated[
        bool, typer.Option("--open", help="open the page in the browser of this machine")
    ] = False,
) -> None:
    """Follow a training on a page of this machine: curves, workers, a flow as it is simulated; until Ctrl-C."""
    begin(f"watching {path}")
    from coupling.commands.watch import serve
    from coupling.run.folder import RunFolder

    folder = RunFolder.find(path)
    os.nice(10)  # on a machine without a free core the training goes first
    with serve(folder, port) as address:
        print(address, flush=True)
        print(
            "flowsim: open this address in a browser of this machine; Ctrl-C ends it",
            file=sys.stderr,
        )
        if open_it:
            webbrowser.open(address)
        with contextlib.suppress(KeyboardInterrupt):
            threading.Event().wait()
    print()  # after ^C
    _print_next(hints.after_watching(path, folder.status.exists()))


class Kind(StrEnum):
    """What a new task is made of."""

    flow = "flow"
    gymnasium = "gymnasium"
    c = "c"


@app.command(
    short_help="Write a small task that works, to start your own from.",
    epilog="Example: flowsim init my_task --kind gymnasium",
)
@told_in_a_sentence
def init(
    folder: Annotated[
        Path,
        typer.Argument(
            metavar="FOLDER",
            help="a new folder, whose name is the task's",
            show_default=False,
            callback=_expanded,
        ),
    ],
    kind: Annotated[
        Kind,
        typer.Option(help="a FlowTask with a body, an environment of your own, or a solver in C"),
    ] = Kind.flow,
) -> None:
    """Write a small task that works, to start your own from, with its settings and a test."""
    from coupling.commands.init import init as write

    for file in write(folder, kind):
        print(file)
    _print_next(hints.after_init(folder, kind))


class Part(StrEnum):
    """What can be measured."""

    solver = "solver"
    tasks = "tasks"
    learner = "learner"
    coupling = "coupling"


@app.command(
    short_help="Measure the speed of a part on this machine.",
    epilog="Example: flowsim bench coupling --json",
)
@told_in_a_sentence
def bench(
    part: Annotated[Part, typer.Argument(help="what is measured", show_default=False)],
    as_json: Json = False,
    full: Annotated[
        bool, typer.Option("--full", help="all rows; without it those of three minutes at most")
    ] = False,
) -> None:
    """Measure the speed of a part on this machine."""
    begin(f"measuring the speed of the {part}")
    from coupling.commands.tables import print_rows
    from coupling.origin import machine

    def say(text: str) -> None:
        print(f"measuring {text}", file=sys.stderr, flush=True)

    if part is Part.solver:
        from flowsim.backend import cuda_is_there
        from flowsim.bench import bench_solver, printed
        from flowsim.bench_cuda import bench_cuda

        rows = bench_solver(say, full=full) + (bench_cuda() if cuda_is_there() else [])
        if not as_json:
            rows = [printed(row) for row in rows]
    elif part is Part.tasks:
        from cases.bench import bench_tasks
        from cases.bench import printed as printed_task

        rows = bench_tasks(say, full=full)
        if not as_json:
            rows = [printed_task(row) for row in rows]
    elif part is Part.learner:
        from rl_agent.bench import bench_learner

        rows = bench_learner(say, full=full)
    else:
        from coupling.commands.bench import standard_rows

        rows = standard_rows(say, full=full)
    if as_json:
        print(json.dumps({"machine": machine(), "rows": rows}))
    else:
        print_rows(rows)
        _print_next(hints.after_bench(part, full))


@app.command(
    short_help="Compare the solver with exact and published values.",
    epilog="Example: flowsim validate --case taylor-green --case cylinder-100 --quick",
)
@told_in_a_sentence
def validate(
    case: Annotated[
        list[str] | None,
        typer.Option(
            help="a case, may be given several times; all unless given", show_default=False
        ),
    ] = None,
    quick: Annotated[
        bool, typer.Option("--quick", help="coarse grids and wider tolerances, about a minute")
    ] = False,
    output: Annotated[
        Path,
        typer.Option(
            "-o",
            "--output",
            callback=_expanded,
            help="folder of the raw results, one JSON file for each case",
        ),
    ] = Path("validation"),
    page: Annotated[
        Path | None,
        typer.Option(
            help="only write this page, with its pictures, from stored results", callback=_expanded
        ),
    ] = None,
    threads: Annotated[int, typer.Option(min=1, help="threads of the solver")] = 2,
    backend: Annotated[str, typer.Option(help="where the solver runs: cpu or cuda")] = "cpu",
    as_json: Json = False,
) -> None:
    """Compare the solver with exact solutions and published values; exit code 1 when a row is beyond its tolerance."""
    with loading("the solver"):
        from coupling.commands.validate import run_cases, write_page

    if page is not None:
        if case or quick or as_json:
            raise ConfigError(
                "--page writes stored results and runs nothing: leave out --case, --quick and --json"
            )
        write_page(output, page)
        print(page)
        return
    refuse_unwritable("--output", output, is_folder=True)
    report = run_cases(case or [], output, quick=quick, threads=threads, backend=backend)
    if as_json:
        print(json.dumps(report))
    else:
        from coupling.commands.tables import print_rows
        from flowsim.validation.report import printed

        print_rows([printed(row) for row in report["rows"]])
        _print_next(hints.after_validation(output))
    if not all(row["passed"] for row in report["rows"]):
        raise typer.Exit(1)


def _print_outcome(folder: "RunFolder") -> None:
    """Print what a training came to: its last returns, the evaluation if it made one, and what to do next."""
    from coupling.run.log import read_status

    status = read_status(folder.status)
    if status["mean_return"] is not None:
        print(
            f"while training, in the last {status['recent_age_steps']:,} steps: "
            f"mean return {status['mean_return']:.4g}, mean length {status['mean_length']:.4g} steps, "
            f"over {status['recent_episodes']} episodes that ended and "
            f"{status['recent_under_way']} longer ones under way"
        )
    if folder.evaluation.exists():
        judged = read_json(folder.evaluation)
        names = {
            "before": "untrained",
            "after": "trained, mean action",
            "drawing": "trained, sampled actions",
        }
        with making_sense_of(folder.evaluation):
            rows = {name: judged[which] for which, name in names.items() if which in judged}
            after = judged.get("after", {})
            _print_results(rows | after.get("baselines", {}), after.get("seed"))
    _print_next(hints.after_training(hints.RunState.of(folder.path, folder)))


def _print_results(results: dict[str, dict[str, Any]], seed: int | None) -> None:
    from coupling.commands.tables import print_results

    print_results(results, seed)


def _print_presets() -> None:
    from coupling.commands.tables import print_rows
    from coupling.settings.presets import describe_presets

    print_rows(describe_presets(), spare=("env",))


def _print_next(commands: list[tuple[str, str]], trust: bool = False) -> None:
    """Print what a person does next, one command a line."""
    commands = hints.trusting(commands) if trust else commands
    for number, (command, why) in enumerate(commands):
        print(f"{'next: ' if number == 0 else '  or: '}{printable(command)}   ({why})")


def main() -> None:
    """Run the command line."""
    leave_out_meta_kernels()
    run_to_end(app)


if __name__ == "__main__":
    main()
