"""`flowsim validate`: run cases, store each result when its case ends, and write the page."""

import time
from pathlib import Path
from typing import Any

from coupling.errors import ConfigError, RunError
from coupling.origin import machine, provenance
from coupling.run.screen import progress_bar
from flowsim.backend import load_backend
from flowsim.backend.cpu import cores
from flowsim.validation import CASES, report, run_case, store
from flowsim.validation.result import Effort

__all__ = ["run_cases", "write_page"]


def run_cases(
    names: list[str], output: Path, *, quick: bool, threads: int, backend: str = "cpu"
) -> dict[str, Any]:
    """Run cases and store each result when its case ends, so that an interrupted validation keeps its results.

    Parameters
    ----------
    names
        Names of the cases; all cases if empty.
    output
        Folder of the results.
    quick
        Whether to use coarse grids and wider tolerances.
    threads
        Threads of the solver; limited to the number that numba has.
    backend
        Backend of the simulations.

    Returns
    -------
    dict
        ``machine`` and ``rows``.

    Raises
    ------
    ConfigError
        For an unknown case, or a backend that is not available on this machine.
    """
    try:
        load_backend(backend).Device()
    except (ValueError, RuntimeError) as error:
        raise ConfigError(f"--{error}" if isinstance(error, ValueError) else str(error)) from error
    for name in names:
        if name not in CASES:
            raise ConfigError(f"--case {name}: the cases are {', '.join(CASES)}")
    threads = min(threads, cores())
    rows: list[dict[str, Any]] = []
    for name in names or list(CASES):
        origin = provenance() | {
            "machine": machine(),
            "threads": threads,
            "backend": backend,
            "time": time.strftime("%Y-%m-%dT%H:%M:%S%z"),
        }
        with progress_bar(name) as progress:
            result, seconds = run_case(name, Effort(quick, backend, threads, progress))
        found = store.as_rows(name, result, seconds, quick)
        store.write(output, name, result, found, quick, origin)
        rows += found
    return {"machine": machine(), "rows": rows}


def write_page(results: Path, page: Path) -> None:
    """Write the page from stored results.

    Raises
    ------
    RunError
        If there are no results, or a file is not a result.
    """
    try:
        report.write_page(results, page)
    except ValueError as error:
        raise RunError(str(error)) from error
