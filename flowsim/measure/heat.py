"""Heat transfer: temperature fluxes through sides, and Nusselt numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from flowsim.backend import step
from flowsim.boundary import SIDE_NAMES, normal_to_x, side_number
from flowsim.grid import GHOSTS as G
from flowsim.kernels.heat import GIVEN

if TYPE_CHECKING:
    from flowsim.backend.state import State

FloatArray = NDArray[np.float64]
OPPOSITE = {"left": "right", "right": "left", "bottom": "top", "top": "bottom"}


def side_heat_flux(flow: State, side: str) -> FloatArray:
    """Return the diffusive temperature flux into the box along a side, kappa dT/dn with n outwards; shape (B, n).

    It is the flux of the solver, so in a steady flow in a closed box the fluxes of all sides add up to zero within
    round-off. Its unit is U times that of temperature.

    Raises
    ------
    ValueError
        For an unknown or periodic side, or a flow without a temperature.
    """
    number = _number(flow, side)
    _fill_temperature(flow)
    t = flow.temperature if normal_to_x(number) else flow.temperature.swapaxes(1, 2)
    cells = t.shape[1] - 2 * G
    inside, beyond = (G, G - 1) if number % 2 == 0 else (G + cells - 1, G + cells)
    lines = [flow.to_host(t[:, i, G:-G]).astype(np.float64) for i in (inside, beyond)]
    return flow.diffusivity[:, None] * (lines[1] - lines[0]) / flow.grid.h


def nusselt_number(flow: State, side: str) -> FloatArray:
    """Return the Nusselt number of a side, the mean flux through it over that of conduction; shape (B,).

    The flux of conduction is that between the mean prescribed temperatures of this side and the opposite one. In steady
    convection between walls both sides have the same Nusselt number.

    Raises
    ------
    ValueError
        For sides without a prescribed temperature or with equal ones, or a flow without a temperature.
    """
    conducted = conduction(flow, side)
    return np.asarray(side_heat_flux(flow, side).mean(axis=1) / conducted)


def volume_nusselt_number(flow: State, side: str) -> FloatArray:
    """Return the Nusselt number of the volume between a side and the opposite one; shape (B,).

    It is 1 + <u_n T> / conduction, averaged over the box, where u_n is the velocity away from ``side``. Its mean over
    time equals that of both sides, but it fluctuates less.

    Raises
    ------
    ValueError
        As for :func:`nusselt_number`.
    """
    return np.asarray(nusselt_profile(flow, side).mean(axis=1))


def nusselt_profile(flow: State, side: str) -> FloatArray:
    """Return the Nusselt number of each line of cells from a side to the opposite one; shape (B, n).

    It is 1 + <u_n T> / conduction along the line; the mean of all lines is :func:`volume_nusselt_number`.

    Raises
    ------
    ValueError
        As for :func:`nusselt_number`.
    """
    conducted, number = conduction(flow, side), _number(flow, side)
    flow.fill_ghosts()
    _fill_temperature(flow)
    along_x = bool(normal_to_x(number))
    normal, t = flow.to_host(flow.u if along_x else flow.v), flow.to_host(flow.temperature)
    if not along_x:
        normal, t = normal.swapaxes(1, 2), t.swapaxes(1, 2)
    n = t.shape[1] - 2 * G
    t = t[:, :, G:-G].astype(np.float64)
    faces = normal[:, G : G + n + 1, G:-G].astype(np.float64)
    # contiguous, so that sums do not depend on the size of the batch
    faces, t = np.ascontiguousarray(faces), np.ascontiguousarray(t)
    carried = faces * 0.5 * (t[:, G - 1 : G + n] + t[:, G : G + n + 1])
    # the faces on the two sides have half weight
    total = carried.sum(axis=1) - 0.5 * (carried[:, 0] + carried[:, -1])
    sign = 1.0 if number % 2 == 0 else -1.0
    return np.asarray(1.0 + sign * total / n / conducted[:, None])


def _fill_temperature(flow: State) -> None:
    """Update the ghost points of the temperature from the current temperatures of the sides."""
    flow._needs_heat()
    flow._device.send_state()
    step.fill_temperature(flow._device_state, flow._device_state.everyone)


def _number(flow: State, side: str) -> int:
    number = side_number(side)
    if getattr(flow.sides, side) == "periodic":
        raise ValueError(f"side = {side!r}: only a side that is not periodic lets heat in")
    return number


def conduction(flow: State, side: str) -> FloatArray:
    """Return the conductive flux (B,) from a side to the opposite one, at their current temperatures."""
    number = _number(flow, side)
    kinds = flow.to_host(flow._needs_heat().kinds)
    other = OPPOSITE[side]
    if not kinds[number] == kinds[SIDE_NAMES.index(other)] == GIVEN:
        raise ValueError(
            f"side = {side!r}: a Nusselt number needs two opposite sides with given temperatures"
        )
    one, two = (flow.side_temperature(name).mean(axis=1) for name in (side, other))
    if (one == two).any():
        raise ValueError(
            f"side = {side!r}: the {other} side has the same temperature, so no heat is conducted"
        )
    length = flow.grid.size[0 if normal_to_x(number) else 1]
    return np.asarray(flow.diffusivity * (one - two) / length)
