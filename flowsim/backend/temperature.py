"""Definition of a temperature: diffusivity, sides, bodies, buoyancy and initial values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flowsim.backend.forcing import Vectors, vectors
from flowsim.boundary import SIDE_NAMES, Side, Sides, normal_to_x
from flowsim.grid import Grid
from flowsim.kernels.heat import ENTERING, FLUX, GIVEN, HEAT_COLUMNS, REFERENCE

FloatArray = NDArray[np.float64]
AlongSide = float | Sequence[Any] | NDArray[np.floating]
"""A number, or values at the cells along a side: (n,), or (B, n) for each flow of a batch."""
Begin = float | NDArray[np.floating] | Callable[[FloatArray, FloatArray], ArrayLike]


@dataclass(frozen=True, eq=False)
class Temperature:
    """A scalar that is advected and diffuses, and that makes the fluid buoyant (Boussinesq).

    dT/dt + (u . grad) T = kappa lap T, and the acceleration ``buoyancy`` (T - ``reference``) acts on the fluid.

    Parameters
    ----------
    diffusivity : float or sequence of B floats
        kappa, in units of U D: 1/(Re Pr), positive.
    sides : mapping of str to float or array
        Temperature of sides, by name: a number, or values at the cells along the side, (n,) or (B, n). On ``outflow``,
        ``open`` and ``far_field`` sides it is the temperature of fluid that enters there, 0 by default; fluid that
        leaves keeps its own temperature. The default on an ``inflow`` side is 0.
    fluxes : mapping of str to float or array
        Temperature flux into the box through walls, kappa dT/dn with n pointing outwards, in units of U times that of
        temperature. A wall in neither mapping is insulated.
    buoyancy : (float, float) or (B, 2)
        Acceleration per unit of temperature, -beta g, in units of U^2/D. It also acts under bodies.
    reference : float
        Temperature at which there is no buoyancy.
    initial : float, array or callable
        Initial temperature: a number, values at the cells, (nx, ny) or (B, nx, ny), or a function of the coordinates x
        and y of the cell centres that returns such values.
    bodies : mapping of int to float
        Uniform temperature of bodies, by body index. The other bodies conduct heat like the fluid.
    """

    diffusivity: float | Sequence[float] | NDArray[np.floating]
    sides: Mapping[str, AlongSide] = field(default_factory=dict)
    fluxes: Mapping[str, AlongSide] = field(default_factory=dict)
    buoyancy: Vectors = (0.0, 0.0)
    reference: float = 0.0
    initial: Begin = 0.0
    bodies: Mapping[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        """Refuse sides, fluxes and bodies that are not mappings."""
        for name in ("sides", "fluxes", "bodies"):
            given = getattr(self, name)
            if not isinstance(given, Mapping):
                raise ValueError(f"temperature: {name} = {given!r}, but must be a mapping")


class HeatTable(NamedTuple):
    """A :class:`Temperature` as arrays; see :class:`flowsim.kernels.records.Heat`.

    Attributes
    ----------
    diffusivity : (B,)
    columns : (B, 3)
    kinds : (4,)
    given : (B, 4, n)
    of_bodies : (K,)
    initial : (B, nx, ny)
    """

    diffusivity: FloatArray
    columns: FloatArray
    kinds: NDArray[np.int64]
    given: FloatArray
    of_bodies: FloatArray
    initial: FloatArray


def tabulate(heat: Temperature, grid: Grid, sides: Sides, bodies: int, batch: int) -> HeatTable:
    """Convert a temperature to arrays.

    Raises
    ------
    ValueError
        For values that are not finite, out of range or of a wrong shape, and for sides that cannot have them.
    """
    diffusivity = filled("diffusivity", heat.diffusivity, ((batch,),), (batch,))
    if not (diffusivity > 0).all():
        raise ValueError(
            f"temperature: diffusivity = {heat.diffusivity!r}, but it must be positive"
        )
    columns = np.zeros((batch, HEAT_COLUMNS))
    columns[:, :REFERENCE] = vectors("temperature: buoyancy", heat.buoyancy, batch)
    columns[:, REFERENCE] = filled("reference", heat.reference, (), (batch,))
    of_bodies = np.full(bodies, np.nan)
    for k, value in heat.bodies.items():
        if k not in range(bodies):
            raise ValueError(f"temperature: there is no body {k!r}, there are {bodies}")
        of_bodies[k] = filled(f"the temperature of body {k}", value, (), ())
    kinds = _kinds(heat, sides)
    given = np.zeros((batch, 4, max(grid.nx, grid.ny)))
    for side, values in {**heat.sides, **heat.fluxes}.items():
        given[:, SIDE_NAMES.index(side), : cells_along(side, grid)] = along_side(
            side, values, grid, batch
        )
    start: Any = heat.initial
    begin = start(*grid.centres()) if callable(start) else start
    cells = grid.nx, grid.ny
    initial = filled("initial", begin, (cells, (batch, *cells)), (batch, *cells))
    return HeatTable(diffusivity, columns, kinds, given, of_bodies, initial)


def cells_along(side: str, grid: Grid) -> int:
    """Return the number of cells along a side."""
    return grid.ny if normal_to_x(SIDE_NAMES.index(side)) else grid.nx


def along_side(side: str, value: AlongSide, grid: Grid, batch: int) -> FloatArray:
    """Return the temperature of a side, or its flux, as (B, n)."""
    n = cells_along(side, grid)
    return filled(f"the value of the {side} side", value, ((n,), (batch, n)), (batch, n))


def filled(
    name: str, value: Any, shapes: Sequence[tuple[int, ...]], shape: tuple[int, ...]
) -> FloatArray:
    """Return a finite number, or finite values of one of ``shapes``, broadcast to ``shape``.

    Raises
    ------
    ValueError
        For anything else.
    """
    try:
        values = np.asarray(value, np.float64)
    except (TypeError, ValueError):
        values = np.full((1, 1, 1, 1), np.nan)
    if values.shape not in ((), *shapes) or not np.isfinite(values).all():
        kinds = " or ".join(["a finite number", *(f"{each} of them" for each in shapes)])
        told = repr(value) if values.ndim == 0 or values.ndim == 4 else f"of shape {values.shape}"
        raise ValueError(f"temperature: {name} is {told}, but must be {kinds}")
    return np.broadcast_to(values, shape).copy()


def _kinds(heat: Temperature, sides: Sides) -> NDArray[np.int64]:
    """Return the thermal condition of each side, (4,), or raise an error for one that the side cannot have."""
    for name in [*heat.sides, *heat.fluxes]:
        if name not in SIDE_NAMES:
            raise ValueError(f"temperature: there is no side {name!r}, but {', '.join(SIDE_NAMES)}")
        if getattr(sides, name) == "periodic":
            raise ValueError(f"temperature: the {name} side is periodic and can have none")
    for name in heat.fluxes:
        if name in heat.sides:
            raise ValueError(
                f"temperature: the {name} side can have a temperature or a flux, not both"
            )
        if getattr(sides, name) not in ("slip", "no_slip"):
            raise ValueError(
                f"temperature: only walls let a given flux in, but the {name} side is {getattr(sides, name)}"
            )
    kinds = np.zeros(4, np.int64)
    for number, name in enumerate(SIDE_NAMES):
        kind = Side[getattr(sides, name).upper()]
        if kind in (Side.SLIP, Side.NO_SLIP):
            kinds[number] = GIVEN if name in heat.sides else FLUX
        else:
            kinds[number] = GIVEN if kind == Side.INFLOW else ENTERING
    return kinds
