"""Fields derived from the velocity at cell centres, and pressure and temperature at points."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from flowsim.grid import GHOSTS as G

if TYPE_CHECKING:
    from flowsim.backend.host.arrays import Arrays
    from flowsim.backend.host.heat import Heated

FloatArray = NDArray[np.float64]


def velocity_at_centres(flow: Arrays, which: int | slice) -> NDArray[np.floating]:
    """See :meth:`flowsim.Simulation.velocity_at_centres`."""
    flow.fill_ghosts()
    nx, ny = flow.grid.nx, flow.grid.ny
    u, v = flow.to_host(flow.u[which]), flow.to_host(flow.v[which])
    u = 0.5 * (u[..., G : G + nx, G : G + ny] + u[..., G + 1 : G + 1 + nx, G : G + ny])
    v = 0.5 * (v[..., G : G + nx, G : G + ny] + v[..., G : G + nx, G + 1 : G + 1 + ny])
    return np.stack([u, v], axis=-1)


def vorticity(flow: Arrays, which: int | slice) -> NDArray[np.floating]:
    """See :meth:`flowsim.Simulation.vorticity`."""
    flow.fill_ghosts()
    nx, ny = flow.grid.nx, flow.grid.ny
    u, v = flow.to_host(flow.u[which]), flow.to_host(flow.v[which])
    x, y = slice(G, G + nx + 1), slice(G, G + ny + 1)
    below, left = slice(G - 1, G + ny), slice(G - 1, G + nx)
    corner = (v[..., x, y] - v[..., left, y] - u[..., x, y] + u[..., x, below]) / flow.grid.h
    corner = (
        corner[..., :-1, :-1] + corner[..., 1:, :-1] + corner[..., :-1, 1:] + corner[..., 1:, 1:]
    )
    return np.asarray(0.25 * corner)


def checked_points(points: ArrayLike) -> FloatArray:
    """Return valid points of the box, (n, 2) or (B, n, 2).

    Raises
    ------
    ValueError
        For a wrong shape, and points that are NaN.
    """
    places = np.asarray(points, np.float64)
    if places.shape[-1:] != (2,) or places.ndim not in (2, 3):
        raise ValueError(f"points have the shape {places.shape}, but must be (n, 2) or (B, n, 2)")
    if np.isnan(places).any():
        raise ValueError("points are not all numbers: some are NaN")
    return places


def sample_pressure(flow: Arrays, points: ArrayLike) -> FloatArray:
    """See :meth:`flowsim.Simulation.sample_pressure`."""
    return _between_cells(flow, flow.pressure, points)


def sample_temperature(flow: Heated, points: ArrayLike) -> FloatArray:
    """See :meth:`flowsim.Simulation.sample_temperature`."""
    return _between_cells(flow, flow.temperature[:, G:-G, G:-G], points)


def _between_cells(flow: Arrays, field: Any, points: ArrayLike) -> FloatArray:
    """Interpolate a field (B, nx, ny), given at cell centres, to points."""
    nx, ny = flow.grid.nx, flow.grid.ny
    places = checked_points(points)
    if places.ndim != 2:
        raise ValueError(f"points have the shape {places.shape}, but must be (n, 2)")
    cells = places / flow.grid.h - 0.5
    cells = np.clip(cells, 0.0, np.array([nx, ny]) - 1.0)
    low = np.minimum(cells.astype(np.int64), np.array([nx, ny]) - 2)
    (x, y), (i, j) = (cells - low).T, low.T
    array = flow._device.array
    corners = [
        flow.to_host(field[:, array(a), array(b)])
        for a, b in ((i, j), (i + 1, j), (i, j + 1), (i + 1, j + 1))
    ]
    weights = (1 - x) * (1 - y), x * (1 - y), (1 - x) * y, x * y
    return np.asarray(sum(w * c for w, c in zip(weights, corners, strict=True)), np.float64)


def divergence(flow: Arrays, b: int = 0) -> FloatArray:
    """Return du/dx + dv/dy of one flow in the discretisation of the projection; shape (nx, ny)."""
    u, v = _faces(flow, b)
    return (np.diff(u[:, G:-G], axis=0) + np.diff(v[G:-G], axis=1)) / flow.grid.h


def q_criterion(flow: Arrays, b: int = 0) -> FloatArray:
    """Return Q of one flow; shape (nx, ny), positive where rotation outweighs strain.

    Q = (|W|^2 - |S|^2) / 2, with S and W the symmetric and the antisymmetric part of the velocity gradient (Hunt, Wray
    and Moin 1988). For two-dimensional flow without divergence it is du/dx dv/dy - du/dy dv/dx.
    """
    (u, v), h = _faces(flow, b), flow.grid.h
    along_x, along_y = np.diff(u[:, G:-G], axis=0) / h, np.diff(v[G:-G], axis=1) / h
    # cross differences are defined at the cell corners
    u_across = _mean_of_corners(np.diff(u[:, G - 1 : 1 - G], axis=1) / h)
    v_across = _mean_of_corners(np.diff(v[G - 1 : 1 - G], axis=0) / h)
    return -0.5 * (along_x**2 + along_y**2) - u_across * v_across


def streamfunction(flow: Arrays, b: int = 0) -> FloatArray:
    """Return psi of one flow with u = dpsi/dy and v = -dpsi/dx, zero in the lower left corner of the box; (nx, ny).

    It is the sum of the fluxes through faces, exact at cell corners; the value of a cell is the mean of its corners.
    Inside a moving body it is that of the body's motion.
    """
    u, v = _faces(flow, b)
    across, upwards = v[G:-G, 0], u[:, G:-G]
    low = np.concatenate([[0.0], -np.cumsum(across)])
    up = np.concatenate([np.zeros((len(low), 1)), np.cumsum(upwards, axis=1)], axis=1)
    return _mean_of_corners(flow.grid.h * (low[:, None] + up))


def _faces(flow: Arrays, b: int) -> tuple[FloatArray, FloatArray]:
    """Return u on all faces of the cells along x, (nx + 1, ny + 2 G), and v along y, (nx + 2 G, ny + 1)."""
    flow.fill_ghosts()
    nx, ny = flow.grid.nx, flow.grid.ny
    u, v = (flow.to_host(field[b]).astype(np.float64) for field in (flow.u, flow.v))
    return u[G : G + nx + 1], v[:, G : G + ny + 1]


def _mean_of_corners(corners: FloatArray) -> FloatArray:
    lines = corners[:-1] + corners[1:]
    return 0.25 * (lines[:, :-1] + lines[:, 1:])
