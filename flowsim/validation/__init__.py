"""The solver against exact solutions and published values: FLOW.md section 4, run by ``flowsim validate``.

A case is a function of an :class:`~flowsim.validation.result.Effort` that returns a
:class:`~flowsim.validation.result.Result`; a new one needs an entry in :data:`CASES` and nothing else.
"""

from __future__ import annotations

import math
import time

from flowsim.validation import smooth
from flowsim.validation.result import Case, DivergedError, Effort, Result, Row

CASES: dict[str, tuple[str, Case]] = {
    "taylor-green": ("Taylor-Green vortex: decay, order of convergence in space and time", smooth.taylor_green),
    "lamb-oseen": ("Lamb-Oseen vortex: velocity profile", smooth.lamb_oseen),
}
"""Name, one line about it, and the function of every case, in the order of the page."""


def run_case(name: str, effort: Effort) -> tuple[Result, float]:
    """Run a case; one that blows up has a failed row that says so.

    Returns
    -------
    Result
    float
        Seconds taken.
    """
    began = time.perf_counter()
    try:
        result = CASES[name][1](effort)
    except DivergedError as error:
        result = Result([Row(str(error), math.nan, None, "", math.nan, 0.0, "", None)])
    return result, time.perf_counter() - began
