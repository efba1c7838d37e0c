"""Results of a validation case: rows of a comparison, plots and pictures."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flowsim.bodies.resolution import blockage
from flowsim.render.fields import boundary
from flowsim.simulation import Simulation

Reference = float | tuple[float, float] | None
"""A published or exact number, an interval of published numbers, or nothing."""

PICTURE_CELLS = 320
"""Number of cells along the longer side of a stored picture."""


class DivergedError(ArithmeticError):
    """Raised when a simulation of a case diverges."""


@dataclass(frozen=True)
class Effort:
    """Cost and progress reporting of a case.

    Attributes
    ----------
    quick : bool
        Whether to use coarse grids and wider tolerances.
    backend : str
        Backend of the simulations.
    threads : int
        Threads of the solver on the CPU.
    progress : callable
        Called with the fraction done, from 0 to 1.
    """

    quick: bool = False
    backend: str = "cpu"
    threads: int = 1
    progress: Callable[[float], None] = field(default=lambda done: None)

    @property
    def solver(self) -> dict[str, Any]:
        """Keyword arguments for :class:`flowsim.Simulation`."""
        return {"backend": self.backend, "threads": self.threads}

    def choose(self, full: Any, quick: Any) -> Any:
        """Return ``quick`` for a quick run, otherwise ``full``."""
        return quick if self.quick else full

    def part(self, index: int, of: int) -> Effort:
        """Return the effort of one of several runs, which reports its share of the total progress."""
        return Effort(
            self.quick, self.backend, self.threads, lambda done: self.progress((index + done) / of)
        )


@dataclass(frozen=True)
class Setup:
    """The numerical set-up of a value; lengths are in D.

    Attributes
    ----------
    grid : str
        Numbers of cells along x and y.
    box : str
        Length and height.
    blockage : float or None
        Largest fraction of a cross-section of the box that bodies cover.
    cells_per_d : float
    cfl, dt : float
        Upper bound of the CFL number, and size of the last step in D/U.
    sides : str
        Kinds of the left, right, bottom and top side.
    dtype, integrator : str
    """

    grid: str
    box: str
    blockage: float | None
    cells_per_d: float
    cfl: float
    dt: float
    sides: str
    dtype: str
    integrator: str

    @classmethod
    def of(cls, sim: Simulation) -> Setup:
        """Return the set-up of a simulation."""
        grid, sides = sim.grid, sim.sides
        return cls(
            grid=f"{grid.nx} x {grid.ny}",
            box=f"{grid.size[0]:.4g} x {grid.size[1]:.4g}",
            blockage=round(float(blockage(sim)[0]), 4) if sim.bodies else None,
            cells_per_d=round(1 / grid.h, 3),
            cfl=sim.cfl,
            dt=float(sim.dt[0]),
            sides=", ".join((sides.left, sides.right, sides.bottom, sides.top)),
            dtype=sim.dtype.name,
            integrator=sim.integrator,
        )


@dataclass(frozen=True)
class Row:
    """A value and its reference.

    Attributes
    ----------
    quantity : str
    value : float
    reference : float, (float, float) or None
    source : str
        Where the reference comes from.
    error, tolerance : float
        Both in the same measure; the row passes if the error is finite and not larger than the tolerance.
    measure : str
        How the error is computed.
    setup : Setup or None
        None if the simulation diverged.
    """

    quantity: str
    value: float
    reference: Reference
    source: str
    error: float
    tolerance: float
    measure: str
    setup: Setup | None

    @property
    def passed(self) -> bool:
        """Whether the error is within the tolerance."""
        return math.isfinite(self.error) and self.error <= self.tolerance


def compare(
    quantity: str,
    value: float,
    reference: float | tuple[float, float],
    tolerance: float,
    setup: Setup,
    source: str,
) -> Row:
    """Compare a value with a number or an interval.

    The error is relative to the reference, or to the nearer end of an interval, and 0 within the interval. If the
    reference is 0, the value is the error.
    """
    low, high = reference if isinstance(reference, tuple) else (reference, reference)
    nearest = min(max(value, low), high)
    error, measure = abs(value - nearest), "absolute"
    if nearest != 0:
        error, measure = (
            error / abs(nearest),
            "relative" if low == high else "relative to the interval's nearer end",
        )
    return Row(quantity, float(value), reference, source, float(error), tolerance, measure, setup)


@dataclass(frozen=True)
class Curve:
    """A line or points in a plot."""

    label: str
    x: list[float]
    y: list[float]
    points: bool = False

    @classmethod
    def of(cls, label: str, x: ArrayLike, y: ArrayLike, points: bool = False) -> Curve:
        """Return a curve from arrays, rounded to six digits."""
        xs, ys = (
            [float(f"{value:.6g}") for value in np.asarray(a, np.float64).ravel()] for a in (x, y)
        )
        return cls(label, xs, ys, points)


@dataclass(frozen=True)
class Plot:
    """Curves in one pair of axes; ``y_limits`` are for clipping a singular start."""

    name: str
    x_label: str
    y_label: str
    curves: Sequence[Curve]
    logarithmic: bool = False
    y_limits: tuple[float, float] | None = None


@dataclass(frozen=True)
class Picture:
    """The vorticity around bodies: levels -127 to 127 for -``limit`` to ``limit``, in a box of ``size``."""

    name: str
    levels: NDArray[np.int8]
    limit: float
    size: tuple[float, float]
    outlines: Sequence[NDArray[np.float64]] = ()

    @classmethod
    def of(
        cls,
        name: str,
        sim: Simulation,
        window: tuple[float, float, float, float] | None = None,
        limit: float = 5.0,
    ) -> Picture:
        """Return a picture of the first flow of a simulation, in a window (x0, x1, y0, y1) if given."""
        h, (nx, ny) = sim.grid.h, (sim.grid.nx, sim.grid.ny)
        x0, x1, y0, y1 = window or (0.0, nx * h, 0.0, ny * h)
        i, j = max(round(x0 / h), 0), max(round(y0 / h), 0)
        field = sim.vorticity()[0, i : min(round(x1 / h), nx), j : min(round(y1 / h), ny)]
        every = max(1, math.ceil(max(field.shape) / PICTURE_CELLS))
        field = field[: field.shape[0] // every * every, : field.shape[1] // every * every]
        size = field.shape[0] * h, field.shape[1] * h
        field = field.reshape(field.shape[0] // every, every, field.shape[1] // every, every).mean(
            axis=(1, 3)
        )
        corner = np.array([i * h, j * h])
        outlines = [boundary(sim, 0, k) - corner for k in range(len(sim.bodies))]
        levels = np.round(127 * np.clip(field / limit, -1, 1)).astype(np.int8)
        return cls(name, levels, limit, size, outlines)


@dataclass(frozen=True)
class Result:
    """Rows, plots and pictures of a case."""

    rows: Sequence[Row]
    plots: Sequence[Plot] = ()
    pictures: Sequence[Picture] = ()


Case = Callable[[Effort], Result]


def advance(sim: Simulation, duration: float) -> None:
    """Advance a simulation, and raise :class:`DivergedError` if it diverges."""
    sim.advance(duration)
    _check(sim)


def _check(sim: Simulation) -> None:
    if sim.diverged.any():
        raise DivergedError(
            f"the simulation blew up at t = {sim.time[0]:.4g} with dt = {sim.dt[0]:.3g}"
        )


def follow(
    sim: Simulation,
    duration: float,
    effort: Effort,
    look: Callable[[Simulation], Sequence[float]],
    every: int = 1,
) -> NDArray[np.float64]:
    """Advance by a duration and record values every ``every`` steps.

    Returns
    -------
    (n, 1 + m) float64
        Time, and the m values returned by ``look``.
    """
    begun, seen, nobody = float(sim.time[0]), [], np.zeros(sim.batch, bool)

    def watch(sim: Simulation) -> NDArray[np.bool_]:
        if sim.steps[0] % every == 0:
            seen.append((float(sim.time[0]), *look(sim)))
        if sim.steps[0] % 20 == 0:
            effort.progress((float(sim.time[0]) - begun) / duration)
        return nobody

    sim.advance(duration, stop=watch)
    _check(sim)
    return np.array(seen)
