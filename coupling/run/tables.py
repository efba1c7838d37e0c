"""Tables that commands print on stdout."""

import math
import time
from collections.abc import Iterator, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from coupling.errors import printable, printable_lines

__all__ = [
    "number",
    "print_results",
    "print_rows",
    "print_status",
    "result_cells",
    "with_fluctuation",
]

_OLD = 15.0  # seconds; a status is written every second
_PROSE = 60  # characters of a sentence before it may wrap
_SHOWN_OTHERWISE = (
    "run",
    "state",
    "agents",
    "workers",
    "deaths",
    "warnings",
    "absent",
    "written",
    "age_seconds",
)
_OF_A_RUN = {
    "epoch": "earlier starts of the run",
    "environment_steps": "environment steps",
    "steps_planned": "planned environment steps",
    "gradient_steps": "gradient steps",
    "steps_after_warm_up": "environment steps after warm-up",
    "ratio": "environment steps per gradient step after warm-up",
    "env_steps_per_gradient_step": "planned environment steps per gradient step (F)",
    "episodes": "finished episodes",
    "mean_return": "mean return of the latest episodes",
    "mean_length": "mean length of the latest episodes (steps)",
    "recent_episodes": "latest episodes, finished",
    "recent_under_way": "latest episodes, unfinished but already longer",
    "recent_age_steps": "environment steps since the first of them ended",
    "steps_per_second": "environment steps per second",
    "updates_per_second": "gradient steps per second",
    "round_trips_per_second": "actions sent per second",
    "batch_size": "actions per forward pass of the policy",
    "restarts": "restarts of workers",
    "refused": "peers whose handshake failed",
    "diverged": "episodes ended because their simulation diverged",
    "failed": "episodes ended because their environment failed",
    "unlearnable": "steps that cannot be learned from",
    "repeats": "repeated messages, answered as before",
    "pauses": "messages repeated before they were answered",
    "stale": "messages that arrived after a later one",
    "forks": "messages of a second process with the same session",
    "recovered": "last messages of dead workers, sent by their replacements",
    "strangers": "messages of unknown sessions",
    "violations": "frames that violated the protocol",
    "unheard": "ignored frames of peers that had violated it",
    "pid": "process of the learner",
    "host": "machine of the learner",
}
"""What ``flowsim status`` calls the numbers of ``status.json``."""
_OF_A_WORKER = {
    "slot": "worker",
    "pid": "process",
    "host": "machine",
    "last_sign_of_life_seconds": "silence (s)",
    "step_seconds": "step (s)",
    "delay_p50_us": "median delay (us)",
    "delay_p99_us": "99 % delay (us)",
    "failure": "last failure",
}
_SPARE_OF_A_WORKER = (
    "resends",
    "99 % delay (us)",
    "steps",
    "starts",
    "median delay (us)",
    "machine",
)


def _show(table: Table) -> None:
    _console().print(table)


def _console() -> Console:
    console = Console(highlight=False, markup=False, emoji=False)
    if not console.is_terminal:
        # a file or a pipe gets whole lines, not lines cut at a terminal's width
        console.width = 160
    return console


def number(value: Any) -> str:
    """Return a number as shown in all tables and pages: five digits, and a dash for None."""
    if value is None:
        return "-"
    return f"{value:.5g}" if isinstance(value, float) else printable(value)


RESULTS = ("mean return", "95 % interval", "mean length", "survival rate", "episodes")
"""Column names of :func:`result_cells`."""


def result_cells(result: dict[str, Any]) -> list[str]:
    """Return the cells of an evaluation as shown in all tables and pages."""
    # no minus sign if it rounds to zero
    mean, low, high = (round(value, 2) + 0.0 for value in (result["mean_return"], *result["ci95"]))
    return [
        f"{mean:.2f}",
        f"[{low:.2f}, {high:.2f}]",
        f"{result['mean_length']:.1f}",
        f"{100 * result['survival']:.0f} %",
        str(result["episodes"]),
    ]


def print_results(results: dict[str, dict[str, Any]], seed: int | None) -> None:
    """Print evaluations: return with its interval, length, survival rate, measures such as the drag, and episodes.

    Parameters
    ----------
    results
        Evaluations by the name of the controller.
    seed
        Seed of the evaluation; None if unknown.
    """
    measured = list(next(iter(results.values())).get("measures", ()))
    table = Table("controller", *RESULTS, *map(printable, measured))
    for name, result in results.items():
        cells = result_cells(result) + _measured_cells(result, measured)
        table.add_row(printable(name), *map(printable, cells))
    _show(table)
    if measured:
        print(
            f"{', '.join(map(printable, measured))}: mean +- rms of the fluctuation, second half of each episode; "
            '"zero" is the flow without control from the same initial states'
        )
    if seed is not None:
        last = max(result["episodes"] + result.get("failed", 0) for result in results.values()) - 1
        print(f"held-out episodes 0 to {last} of evaluation seed {seed}: not used in training")
    for name, result in results.items():
        for line in _exceptions(result):
            print(f"{name}: {line}")


def _measured_cells(result: dict[str, Any], names: Sequence[str]) -> list[str]:
    measures = result.get("measures", {})
    return [
        with_fluctuation(found["mean"], found["rms"]) if (found := measures.get(name)) else "-"
        for name in names
    ]


def with_fluctuation(mean: float, rms: float) -> str:
    """Return both with three decimals, or with three digits of the larger one if it is below 0.1."""
    largest = max(abs(mean), rms)
    decimals = 3 if not 0.0 < largest < 0.1 else min(2 - math.floor(math.log10(largest)), 9)
    return f"{round(mean, decimals) + 0.0:.{decimals}f} +- {rms:.{decimals}f}"


def _exceptions(result: dict[str, Any]) -> Iterator[str]:
    """Yield messages on failed and truncated episodes of an evaluation."""
    if failed := result.get("failed", 0):
        played = result["episodes"] + failed
        yield f"{failed} of {played} episodes failed and are not counted; the last failure: {result['failure']}"
    if cut := result.get("cut", 0):
        bound = f"{result['cut_at']} actions (run.evaluate_max_actions, or --max-actions)"
        yield f"{cut} of {result['episodes']} episodes were truncated at {bound}"


def print_rows(rows: list[dict[str, Any]], spare: Sequence[str] = ()) -> None:
    """Print rows, of a benchmark for example.

    Parameters
    ----------
    rows
        One dict per row, with the values by column name.
    spare
        Columns to leave out, in this order, if the terminal is too narrow for all of them.
    """
    columns = {
        printable(key): [number(row.get(key)) for row in rows] for row in rows for key in row
    }
    console, without = _console(), list[str]()
    for name in spare:
        if name in columns and _width(columns) > console.width:
            del columns[name]
            without.append(name)
    told = f"this terminal is too narrow to show {', '.join(without)}" if without else None
    table = Table(caption=told, caption_justify="left")
    for name in columns:
        # wrap a word longer than its column, instead of cutting it
        table.add_column(name, overflow="fold")
    for cells in zip(*columns.values(), strict=True):
        table.add_row(*cells)
    console.print(table)


def _width(columns: dict[str, list[str]]) -> int:
    """Return the width of a table in characters if only its prose is wrapped."""
    longest = [max(map(len, (name, *cells))) for name, cells in columns.items()]
    return sum(min(width, _PROSE) + 3 for width in longest) + 1


def print_status(status: dict[str, Any]) -> None:
    """Print the state of a run."""
    table = Table("what", "value", title=printable(f"run {status['run']}: {status['state']}"))
    for key, value in status.items():
        if key not in _SHOWN_OTHERWISE:
            table.add_row(printable(_OF_A_RUN.get(key, key.replace("_", " "))), number(value))
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(status["written"]))
    table.add_row("written", f"{when}, {_duration(status['age_seconds'])} ago")
    if status.get("absent"):
        table.add_row("missing workers", printable(", ".join(map(str, status["absent"]))))
    counts = status["agents"]
    table.add_row("distinct agents", str(len(counts)))
    table.add_row(
        "steps of each agent",
        printable(", ".join(f"{agent}: {count}" for agent, count in counts.items())),
    )
    _show(table)
    if status["workers"]:
        print_rows([_worker_row(worker) for worker in status["workers"]], _SPARE_OF_A_WORKER)
    events = [(death["time"], death["reason"]) for death in status["deaths"]]
    events += [
        (warning["time"], f"warning: {warning['text']}") for warning in status.get("warnings", [])
    ]
    for moment, text in sorted(events):
        print(f"{time.strftime('%H:%M:%S', time.localtime(moment))} {printable_lines(text)}")
    if news := _news(status):
        print(printable(news))


def _worker_row(worker: dict[str, Any]) -> dict[str, Any]:
    shown = worker | {"agents": _span(worker["agents"])}
    return {_OF_A_WORKER.get(key, key): value for key, value in shown.items()}


def _news(status: dict[str, Any]) -> str:
    """Return what the age of a status means, if anything."""
    state, age = status["state"], _duration(status["age_seconds"])
    if state in ("finished", "stopped", "failed"):
        return f"the run ended {age} ago ({state})"
    if state == "died":
        return f"the learner (process {status['pid']}) has died; its last status is {age} old"
    if status["age_seconds"] > _OLD:
        where = f"process {status['pid']} on {status.get('host', 'this machine')}"
        return f"no update for {age}: the learner ({where}) hangs, is in a long step, or waits for disk space"
    return ""


def _duration(seconds: float) -> str:
    for unit, length in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def _span(agents: list[int]) -> str:
    return f"{agents[0]}-{agents[-1]}"
