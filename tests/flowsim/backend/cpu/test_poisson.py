"""The pressure solver against direct solutions, and its transform against SciPy's and NumPy's."""

import numpy as np
import pytest
import scipy.fft
import scipy.sparse
import scipy.sparse.linalg

from flowsim.backend.cpu import Device
from flowsim.backend.cpu.compiling import Task, recording, sweep
from flowsim.backend.cpu.poisson import PressureSolver
from flowsim.backend.cpu.transform import TransformTables, buffer_size, change_rows

Periodic = tuple[bool, bool]
Held = tuple[bool, bool, bool, bool]
FREE = (False, False, False, False)
SIDES = [((False, False), FREE), ((True, False), FREE), ((False, True), FREE), ((True, True), FREE),
         ((False, False), (False, False, True, True)), ((False, False), (False, True, False, False)),
         ((False, False), (True, False, False, False)), ((False, False), (True, True, False, False)),
         ((False, False), (True, True, True, True)), ((False, False), (False, True, True, True)),
         ((True, False), (False, False, True, True)), ((False, True), (True, True, False, False)),
         ((False, True), (False, True, False, False))]  # fmt: skip
"""In which direction the box is periodic, and on which sides phi is zero."""
LENGTHS = [8, 14, 22, 30, 60, 64, 96, 194, 250, 256]


def solver(
    nx: int, ny: int, periodic: Periodic, held: Held, dtype: str, batch: int = 1, threads: int = 1
):
    return PressureSolver(nx, ny, periodic, held, np.dtype(dtype), batch, Device(threads))


def sources(batch: int, nx: int, ny: int, dtype: str = "float64", held: Held = FREE) -> np.ndarray:
    d = np.random.default_rng(0).normal(size=(batch, nx, ny))
    if any(held):
        return d.astype(dtype)
    return (d - d.mean(axis=(1, 2), keepdims=True)).astype(dtype)


def second_difference(n: int, periodic: bool, low: bool, high: bool) -> scipy.sparse.spmatrix:
    matrix = scipy.sparse.diags_array(
        [np.ones(n - 1), np.full(n, -2.0), np.ones(n - 1)], offsets=[-1, 0, 1]
    ).tolil()
    if periodic:
        matrix[0, n - 1] = matrix[n - 1, 0] = 1
    else:
        matrix[0, 0], matrix[n - 1, n - 1] = (-3 if low else -1), (-3 if high else -1)
    return matrix.tocsr()


def direct_solution(d: np.ndarray, periodic: Periodic, held: Held) -> np.ndarray:
    """Solve the five-point equations; where phi is held nowhere with one value fixed, then take the mean away."""
    nx, ny = d.shape
    laplacian = scipy.sparse.kronsum(
        second_difference(ny, periodic[1], *held[2:]), second_difference(nx, periodic[0], *held[:2])
    )
    if any(held):
        return scipy.sparse.linalg.spsolve(laplacian.tocsc(), d.ravel()).reshape(d.shape)
    phi = np.zeros(d.size)
    phi[1:] = scipy.sparse.linalg.spsolve(laplacian.tocsc()[1:, 1:], d.ravel()[1:])
    return (phi - phi.mean()).reshape(d.shape)


@pytest.mark.parametrize(("periodic", "held"), SIDES)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-11), ("float32", 1e-5)])
def test_agrees_with_a_direct_solution(
    periodic: Periodic, held: Held, dtype: str, tolerance: float
) -> None:
    for nx, ny in [(n, m) for n, m in zip(LENGTHS, LENGTHS[::-1], strict=True)] + [
        (8, 8),
        (48, 32),
    ]:
        phi = sources(1, nx, ny, held=held)
        expected = direct_solution(phi[0], periodic, held)
        phi = phi.astype(dtype)
        solver(nx, ny, periodic, held, dtype).solve(np.ones(1, np.bool_), phi)
        assert np.abs(phi[0] - expected).max() < tolerance * np.abs(expected).max(), (nx, ny)


@sweep
def change(task, source, target, stop, buffer, tables, backward) -> None:
    change_rows(source, target, task.b, 0, stop, buffer, tables, backward)


def modes_of(d: np.ndarray, periodic: bool, held: bool = False) -> tuple[np.ndarray, np.ndarray]:
    """Return the modes of a (1, nx, ny) array and what becomes of them on the way back."""
    nx, ny = d.shape[1:]
    tables = TransformTables.build(ny, periodic, held, d.dtype)
    buffer = np.full(buffer_size(ny), np.nan, d.dtype)  # values left there must have no effect
    modes = np.zeros((1, nx, ny + 32), d.dtype)
    one = np.ones(1, np.bool_)
    change(one, d, modes, nx, buffer, tables, False)
    back = np.zeros_like(d)
    change(one, modes, back, nx, buffer, tables, True)
    return modes[..., :ny], back


@pytest.mark.parametrize("ny", LENGTHS)
@pytest.mark.parametrize("nx", [8, 32, 50])
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-14), ("float32", 1e-6)])
def test_transform_is_the_discrete_cosine_or_sine_transform(
    nx: int, ny: int, dtype: str, tolerance: float
) -> None:
    d = sources(1, nx, ny, dtype)
    modes, back = modes_of(d, periodic=False)
    expected = scipy.fft.dct(d.astype(np.float64), axis=2) / 2
    assert np.abs(modes - expected).max() < tolerance * np.abs(expected).max()
    assert np.abs(back - d).max() < 2 * tolerance * np.abs(d).max()
    modes, back = modes_of(d, periodic=False, held=True)
    expected = scipy.fft.dst(d.astype(np.float64), axis=2)[..., ::-1] / 2
    assert np.abs(modes - expected).max() < tolerance * np.abs(expected).max()
    assert np.abs(back - d).max() < 2 * tolerance * np.abs(d).max()


@pytest.mark.parametrize("ny", LENGTHS)
@pytest.mark.parametrize(("dtype", "tolerance"), [("float64", 1e-14), ("float32", 1e-6)])
def test_transform_is_the_fourier_transform_of_a_periodic_side(
    ny: int, dtype: str, tolerance: float
) -> None:
    d = sources(1, 20, ny, dtype)
    modes, back = modes_of(d, periodic=True)
    fourier = np.fft.rfft(d.astype(np.float64), axis=2)
    expected = np.concatenate([fourier.real, -fourier.imag[..., ny // 2 - 1 : 0 : -1]], axis=2)
    assert np.abs(modes - expected).max() < tolerance * np.abs(expected).max()
    assert np.abs(back - d).max() < 2 * tolerance * np.abs(d).max()


@pytest.mark.parametrize(("periodic", "held"), SIDES)
@pytest.mark.parametrize(("nx", "ny"), [(128, 64), (70, 30)])
def test_solution_does_not_depend_on_blocks_or_batch(
    periodic: Periodic, held: Held, nx: int, ny: int
) -> None:
    """Bit for bit, for any distribution of rows over the workers and any other flows in the batch."""
    d = sources(5, nx, ny, "float32")
    alone = d[3:4].copy()
    solver(nx, ny, periodic, held, "float32").solve(np.ones(1, np.bool_), alone)
    for active, blocks, threads in (([3], 1, 1), ([3], 2, 2), ([1, 3], 3, 2), (range(5), 1, 1)):
        phi = d.copy()
        with recording() as calls:
            solver(nx, ny, periodic, held, "float32", 5, threads).solve(np.ones(5, np.bool_), phi)
        for call in calls:
            for b in active:
                for block in reversed(range(blocks)):
                    call.run(Task(b, block, blocks, block % threads))
        np.testing.assert_array_equal(phi[3], alone[0])
        waiting = np.setdiff1d(np.arange(5), active)
        np.testing.assert_array_equal(phi[waiting], d[waiting])
