"""Tables for people, on stdout."""

import time
from typing import Any

from rich.console import Console
from rich.table import Table

__all__ = ["print_results", "print_rows", "print_status"]

_OLD = 15.0  # seconds; a status is written each second
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


def _show(table: Table) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        # a file or a pipe gets whole lines, not ones cut at a width that it does not have
        console.width = 160
    console.print(table)


def _number(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def print_results(results: dict[str, dict[str, Any]]) -> None:
    """Print evaluations by name: return with its interval, length and survival."""
    table = Table(
        "controller", "mean return", "95 % interval", "mean length", "survival", "episodes"
    )
    for name, result in results.items():
        low, high = result["ci95"]
        table.add_row(
            name,
            f"{result['mean_return']:.2f}",
            f"[{low:.2f}, {high:.2f}]",
            f"{result['mean_length']:.1f}",
            f"{100 * result['survival']:.0f} %",
            str(result["episodes"]),
        )
    _show(table)


def print_rows(rows: list[dict[str, Any]]) -> None:
    """Print rows of a benchmark."""
    columns = list(dict.fromkeys(key for row in rows for key in row))
    table = Table(*columns)
    for row in rows:
        table.add_row(*(_number(row.get(column)) for column in columns))
    _show(table)


def print_status(status: dict[str, Any]) -> None:
    """Print how a run stands."""
    table = Table("what", "value", title=f"run {status['run']}: {status['state']}")
    for key, value in status.items():
        if key not in _SHOWN_OTHERWISE:
            table.add_row(key.replace("_", " "), _number(value))
    when = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(status["written"]))
    table.add_row("written", f"{when}, {_duration(status['age_seconds'])} ago")
    if status.get("absent"):
        table.add_row("workers not there", ", ".join(map(str, status["absent"])))
    counts = status["agents"]
    table.add_row("distinct agents", str(len(counts)))
    table.add_row(
        "steps of each agent", ", ".join(f"{agent}: {count}" for agent, count in counts.items())
    )
    _show(table)
    if status["workers"]:
        print_rows([worker | {"agents": _span(worker["agents"])} for worker in status["workers"]])
    events = [(death["time"], death["reason"]) for death in status["deaths"]]
    events += [
        (warning["time"], f"warning: {warning['text']}") for warning in status.get("warnings", [])
    ]
    for moment, text in sorted(events):
        print(f"{time.strftime('%H:%M:%S', time.localtime(moment))} {text}")
    if news := _news(status):
        print(news)


def _news(status: dict[str, Any]) -> str:
    """Say what the age of a status means, if it means something."""
    state, age = status["state"], _duration(status["age_seconds"])
    if state in ("finished", "stopped", "failed"):
        return f"the run is over ({state}), {age} ago"
    if state == "died":
        return f"the learner (process {status['pid']}) is gone without a word; its last news are {age} old"
    if status["age_seconds"] > _OLD:
        where = f"process {status['pid']} on {status.get('host', 'this machine')}"
        return (
            f"no news for {age}: the learner ({where}) stands still, is in a long step, "
            "or waits for room on the disk"
        )
    return ""


def _duration(seconds: float) -> str:
    for unit, length in (("days", 86400), ("h", 3600), ("min", 60)):
        if seconds >= 2 * length:
            return f"{seconds / length:.0f} {unit}"
    return f"{seconds:.0f} s"


def _span(agents: list[int]) -> str:
    return f"{agents[0]}-{agents[-1]}"
