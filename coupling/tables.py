"""Tables for people, on stdout."""

import time
from typing import Any

from rich.console import Console
from rich.table import Table

__all__ = ["print_results", "print_rows", "print_status"]


def _show(table: Table) -> None:
    console = Console(highlight=False)
    if not console.is_terminal:
        console.width = 160  # a file or a pipe gets whole lines, not ones cut at a width that it does not have
    console.print(table)


def _number(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.5g}" if isinstance(value, float) else str(value)


def print_results(results: dict[str, dict[str, Any]]) -> None:
    """Print evaluations by name: return with its interval, length and survival."""
    table = Table("controller", "mean return", "95 % interval", "mean length", "survival", "episodes")
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
        if key not in ("run", "state", "agents", "workers", "deaths", "written"):
            table.add_row(key.replace("_", " "), _number(value))
    table.add_row("written", time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(status["written"])))
    counts = status["agents"]
    table.add_row("distinct agents", str(len(counts)))
    table.add_row("steps of each agent", ", ".join(f"{agent}: {count}" for agent, count in counts.items()))
    _show(table)
    if status["workers"]:
        print_rows([worker | {"agents": _span(worker["agents"])} for worker in status["workers"]])
    for death in status["deaths"]:
        print(f"{time.strftime('%H:%M:%S', time.localtime(death['time']))} {death['reason']}")


def _span(agents: list[int]) -> str:
    return f"{agents[0]}-{agents[-1]}"
