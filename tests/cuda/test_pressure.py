import numpy as np
import pytest
import scipy.sparse
import scipy.sparse.linalg
from numba import config

from flowsim import Grid

FREE = (False, False, False, False)
SIDES = [((False, False), FREE), ((True, False), FREE), ((False, True), FREE), ((True, True), FREE),
         ((False, False), (False, False, True, True)), ((False, False), (False, True, False, False)),
         ((False, False), (True, False, True, True)), ((False, False), (True, True, False, False)),
         ((True, False), (False, False, True, True)), ((False, True), (True, False, False, False))]  # fmt: skip
"""In which direction the box is periodic, and on which sides phi is zero."""


SIZES = [(3, 5), (4, 6), (10, 12), (13, 7), (16, 8), (33, 6), (67, 4)]
if not config.ENABLE_CUDASIM:
    SIZES = [(3, 5), (16, 6), (17, 8), (310, 252), (496, 168), (512, 255), (1023, 64), (1601, 64), (4096, 32),
             (5001, 9), (9001, 6)]  # fmt: skip
"""Less than a piece of a row, pieces of the same length, a shorter last one, and rows too long for one block."""


def laplacian(n: int, periodic: bool, low: bool, high: bool):
    """Five-point Laplacian in one direction: nothing passes the sides, phi is zero on them, or they are connected."""
    matrix = scipy.sparse.diags_array(
        [np.ones(n - 1), -2.0 * np.ones(n), np.ones(n - 1)], offsets=[-1, 0, 1]
    ).tolil()
    if periodic:
        matrix[0, n - 1] = matrix[n - 1, 0] = 1
    else:
        matrix[0, 0], matrix[n - 1, n - 1] = (-3 if low else -1), (-3 if high else -1)
    return matrix.tocsr()


@pytest.mark.parametrize(("periodic", "held"), SIDES)
@pytest.mark.parametrize(("nx", "ny"), SIZES)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-10), ("float32", 1e-5)])
def test_solves_the_five_point_equations(
    dtype: str, tolerance: float, nx: int, ny: int, periodic: tuple[bool, bool], held: tuple[bool, bool, bool, bool]
) -> None:  # fmt: skip
    """Check the residual with an independent matrix; an inactive simulation is not changed."""
    from flowsim.backend.cuda import Device, PressureSolver

    rng = np.random.default_rng(nx)
    d = rng.normal(size=(3, nx, ny))
    if not any(held):
        d -= d.mean(axis=(1, 2), keepdims=True)
    sign = np.where(np.arange(ny) % 2 == 1, -1.0, 1.0) if held[2] else np.ones(ny)
    order = (
        np.arange(ny)
        if periodic[1]
        else [j // 2 if j % 2 == 0 else ny - 1 - j // 2 for j in range(ny)]
    )
    rows = np.empty(d.shape, dtype)
    rows[:, :, order] = sign * d
    device = Device()
    near = device.array(rows)
    PressureSolver(nx, ny, periodic, held, np.dtype(dtype), 3, device).solve(
        device.array(np.array([1, 0, 1], bool)), near
    )
    phi = sign * device.to_host(near)[:, :, order].astype(np.float64)
    matrix = scipy.sparse.kronsum(
        laplacian(ny, periodic[1], *held[2:]), laplacian(nx, periodic[0], *held[:2])
    )
    for b in (0, 2):
        residual = (matrix @ phi[b].ravel()).reshape(nx, ny) - d[b]
        assert np.abs(residual).max() < tolerance * np.abs(phi[b]).max()
        assert any(held) or abs(phi[b].mean()) < 1e-2 * tolerance * np.abs(phi[b]).max()
    assert np.abs((matrix @ phi[1].ravel()).reshape(nx, ny) - d[1]).max() > 0.1


@pytest.mark.gpu
@pytest.mark.parametrize(("nx", "ny"), [(1024, 512), (8192, 4096)])
def test_single_precision_is_enough_for_large_boxes(nx: int, ny: int) -> None:
    """The divergence after the projection stays at the round-off of the velocities."""
    from flowsim import Disk, Sides, Simulation

    sim = Simulation(
        Grid(nx, ny, 8 / nx), Sides(), [Disk(center=(2.0, 2.0))], viscosity=1e-3, backend="cuda"
    )
    sim.advance_steps(3)
    assert sim.max_divergence()[0] * sim.grid.h < 1e-4
