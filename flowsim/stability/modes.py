"""Growth rate, frequency and shape of the fastest growing small disturbances of a steady flow."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from flowsim.backend.host.given import is_positive, is_whole
from flowsim.boundary import Side
from flowsim.grid import GHOSTS as G
from flowsim.stability.base_flow import check_steady

if TYPE_CHECKING:
    from flowsim.simulation import Simulation

FloatArray = NDArray[np.float64]
ComplexArray = NDArray[np.complex128]

AMPLITUDE = {"float32": 1e-3, "float64": 1e-6}
"""Largest value of the disturbances that the solver advances: small relative to the flow, large to round-off."""
UNSTEADY = 2e-3
"""Root mean square rate of change, in U^2/D, above which a flow is refused: for the steady flow behind a cylinder at
Re 100, the error of the growth rate is 14 % at 3e-3 and 4 % at 8e-4."""
LOOK_EVERY = 4
"""Number of vectors between convergence checks."""


@dataclass(frozen=True)
class Modes:
    """The modes of each flow, fastest growing first: a disturbance is the real part of mode times exp(s t).

    Of two complex conjugate modes, the one with positive frequency is listed. Modes are scaled such that the largest
    entry, at a face or a cell centre, is 1.

    Attributes
    ----------
    growth_rate, frequency : (B, n) float64
        s = growth_rate + 2 pi i frequency, in units of U/D: the frequency is a Strouhal number.
    error : (B, n) float64
        Estimate of the error of s from the residual, in units of U/D, assuming that the flow is steady.
    change : (B,) float64
        Root mean square rate of change of the undisturbed flow during the computation, in units of U^2/D. Its
        contribution to the error of s is of this order, times five for the wake of a cylinder.
    u, v : (B, n, nx + 2 G, ny + 2 G) complex128
        Velocity of the modes on the faces; :meth:`flowsim.Simulation.add_velocity` takes their real parts.
    temperature : (B, n, nx, ny) complex128 or None
    """

    growth_rate: FloatArray
    frequency: FloatArray
    error: FloatArray
    change: FloatArray
    u: ComplexArray
    v: ComplexArray
    temperature: ComplexArray | None


def leading_modes(
    flow: Simulation,
    count: int = 1,
    *,
    interval: float = 2.0,
    tolerance: float = 1e-3,
    vectors: int = 80,
    seed: int = 0,
) -> Modes:
    """Compute the fastest growing modes of small disturbances about the steady flows of a batch.

    The method is an Arnoldi iteration with the time stepper: a small disturbance is added to the flow, advanced by
    ``interval``, and orthogonalised against the previous vectors (Edwards et al. 1994; Barkley, Gomes and Henderson
    2002). The solver is not linearised; disturbances are merely small. So bodies, sides and temperature are treated as
    in the simulation. float64 is recommended; in float32 rates are accurate to about 1e-3.

    Parameters
    ----------
    flow : Simulation
        Steady flows, from :func:`flowsim.base_flow` or by themselves. Their state is restored, and instruments do not
        measure the disturbances.
    count : int
        Number of modes.
    interval : float
        Time between two vectors, in units of D/U. Frequencies above half its inverse are aliased to lower ones.
    tolerance : float
        Tolerance of the estimated error of every mode, in units of U/D.
    vectors : int
        Largest number of vectors; each takes ``interval`` of simulated time, and memory for the velocity in float64.
    seed : int
        Seed of the initial noise.

    Returns
    -------
    Modes
        With ``error`` above ``tolerance`` where ``vectors`` were too few.

    Raises
    ------
    ValueError
        For numbers out of range, and flows that cannot be steady or are not (:data:`UNSTEADY`).
    ArithmeticError
        When a disturbed flow diverges.
    """
    check_steady(flow)
    for name, value in (("interval", interval), ("tolerance", tolerance)):
        if not is_positive(value):
            raise ValueError(f"{name} = {value!r}: it must be positive")
    if not (is_whole(count) and is_whole(vectors)):
        raise ValueError(f"count = {count!r}, vectors = {vectors!r}: both must be integers")
    if not 1 <= count < vectors:
        raise ValueError(
            f"count = {count!r}, vectors = {vectors!r}: there must be more vectors than modes"
        )
    with _unmeasured(flow):
        return _leading_modes(_Disturbed(flow, interval), count, interval, tolerance, vectors, seed)


@contextmanager
def _unmeasured(flow: Simulation) -> Iterator[None]:
    """Detach instruments and control volumes, which would measure the disturbances."""
    instruments, volumes = flow.instruments, flow.control_volumes
    flow.instruments, flow.control_volumes = [], None
    try:
        yield
    finally:
        flow.instruments, flow.control_volumes = instruments, volumes
        flow.sense()


def _leading_modes(
    disturbed: _Disturbed, count: int, interval: float, tolerance: float, vectors: int, seed: int
) -> Modes:
    if (unsteady := ~(disturbed.change <= UNSTEADY)).any():
        b = int(unsteady.argmax())
        raise ValueError(
            f"flow {b} is not steady: it changes by {disturbed.change[b]:.2g} U^2/D (rms), and may by {UNSTEADY:g}; "
            "bring it to its steady state with base_flow"
        )
    noise = np.random.default_rng(seed).standard_normal(disturbed.size)
    first = disturbed.advance(np.tile(noise, (len(disturbed.change), 1)))
    spaces = [_Krylov(row, vectors) for row in first]
    for made in range(1, vectors + 1):
        after = disturbed.advance(np.stack([space.last for space in spaces]))
        for space, row in zip(spaces, after, strict=True):
            space.add(row)
        if made % LOOK_EVERY == 0 or made == vectors:
            found = [space.modes(count, interval) for space in spaces]
            if all((error <= tolerance).all() for _, error in found):
                break
    s, error = (np.stack(part) for part in zip(*found, strict=True))
    shapes = np.stack([space.shapes(count) for space in spaces])
    # rotated and scaled such that the largest entry is 1
    largest = np.take_along_axis(shapes, np.abs(shapes).argmax(axis=-1)[..., None], axis=-1)
    u, v, *heat = disturbed.padded(shapes / largest)
    temperature = heat[0][..., G:-G, G:-G] if heat else None
    return Modes(s.real, s.imag / (2 * np.pi), error, disturbed.change, u, v, temperature)


class _Krylov:
    """Krylov space of one flow: orthonormal vectors and Hessenberg matrix."""

    def __init__(self, start: FloatArray, most: int) -> None:
        self._basis, self._matrix = np.zeros((most + 1, len(start))), np.zeros((most + 1, most))
        self._basis[0], self._made = start / np.linalg.norm(start), 0

    @property
    def last(self) -> FloatArray:
        """The last basis vector."""
        return self._basis[self._made]

    def add(self, after: FloatArray) -> None:
        """Orthogonalise the image of the last vector, and add it as the next vector."""
        m = self._made
        known = self._basis[: m + 1]
        for _ in range(2):  # a single pass leaves round-off errors
            share = known @ after
            after = after - share @ known
            self._matrix[: m + 1, m] += share
        length = max(float(np.linalg.norm(after)), float(np.finfo(np.float64).tiny))
        self._matrix[m + 1, m] = length
        self._basis[m + 1], self._made = after / length, m + 1

    def modes(self, count: int, interval: float) -> tuple[ComplexArray, FloatArray]:
        """Return s of the ``count`` fastest growing modes, and its errors; NaN and inf if there are fewer."""
        factor, _, error = self._leading(count)
        s, errors = np.full(count, np.nan + 0j), np.full(count, np.inf)
        s[: len(factor)], errors[: len(factor)] = np.log(factor) / interval, error / interval
        return s, errors

    def shapes(self, count: int) -> ComplexArray:
        """Return the fastest growing modes, (count, size); NaN if there are fewer."""
        _, weights, _ = self._leading(count)
        shapes = np.full((count, self._basis.shape[1]), np.nan + 0j)
        shapes[: weights.shape[1]] = weights.T @ self._basis[: self._made]
        return shapes

    def _leading(self, count: int) -> tuple[ComplexArray, ComplexArray, FloatArray]:
        """Return the largest growth factors over an interval, their vectors in the basis, and relative residuals."""
        m = self._made
        factor, weights = np.linalg.eig(self._matrix[:m, :m].astype(np.complex128))
        fastest = np.argsort(-np.abs(factor), kind="stable")
        # with round-off, both or neither of a conjugate pair could pass a test for a positive imaginary part
        pairs = factor.imag >= -1e-9 * np.abs(factor)
        kept = [n for n in fastest if pairs[n] and factor[n] != 0][:count]
        residual = self._matrix[m, m - 1] * np.abs(weights[-1, kept]) / np.abs(factor[kept])
        return factor[kept], weights[:, kept], residual


def _free(kinds: NDArray[np.int64], n: int) -> slice:
    """Return the faces along a line of n cells, as padded indices, whose velocity is not prescribed by a side."""
    low, high = (kind in (Side.OUTFLOW, Side.OPEN) for kind in kinds)
    return slice(G + (not (low or kinds[0] == Side.PERIODIC)), G + n + high)


class _Disturbed:
    """Advances small disturbances of the flows of a batch, as vectors (B, size) of values not prescribed by sides."""

    def __init__(self, flow: Simulation, interval: float) -> None:
        self._flow, self._interval = flow, interval
        self._all = list(range(flow.batch))
        states = [flow.get_state(b) for b in self._all]
        self._stored = flow.store_states(
            {name: np.stack([state[name] for state in states]) for name in states[0]}
        )
        nx, ny = flow.grid.nx, flow.grid.ny
        x, y = slice(G, G + nx), slice(G, G + ny)
        kinds = flow.sides.kinds()
        self._inside = [(_free(kinds[:2], nx), y), (x, _free(kinds[2:], ny))]
        if flow.heat is not None:
            self._inside.append((x, y))
        begun = self._values()
        self.size = begun.shape[1]
        self._undisturbed = self.advance(None)
        squares = ((self._undisturbed - begun) ** 2).sum(axis=1)
        self.change: FloatArray = np.sqrt(squares / (nx * ny)) / interval

    def advance(self, vectors: FloatArray | None) -> FloatArray:
        """Return disturbances after the interval, or the flow itself without any; restore the flow afterwards."""
        flow, scale = self._flow, np.ones((flow_batch := self._flow.batch, 1))
        zero = np.zeros((flow_batch, self.size))
        if vectors is not None:
            largest = np.abs(vectors).max(axis=1, keepdims=True)
            scale = AMPLITUDE[flow.dtype.name] / largest
        self._disturb(zero if vectors is None else scale * vectors)
        flow.advance(self._interval)
        diverged = flow.diverged.any()
        after = self._values()
        flow.restore_states(self._all, self._stored, self._all)
        if diverged:
            raise ArithmeticError(
                "a disturbed flow diverged; check that the flow is at its steady state"
            )
        return after if vectors is None else (after - self._undisturbed) / scale

    def _fields(self) -> list[Any]:
        flow = self._flow
        return [flow.u, flow.v] if flow.heat is None else [flow.u, flow.v, flow.temperature]

    def _values(self) -> FloatArray:
        """Return the flows as vectors."""
        self._flow.fill_ghosts()
        parts = [
            self._flow.to_host(field[:, x, y]).reshape(self._flow.batch, -1)
            for field, (x, y) in zip(self._fields(), self._inside, strict=True)
        ]
        return np.concatenate(parts, axis=1).astype(np.float64)

    def _disturb(self, vectors: FloatArray) -> None:
        flow = self._flow
        u, v, *heat = self.padded(vectors)
        flow.add_velocity(self._all, u, v)
        if heat:
            now = flow.temperature_at_centres()
            flow.set_temperature(self._all, now + heat[0][:, G:-G, G:-G])

    def padded(self, vectors: NDArray[Any]) -> list[NDArray[Any]]:
        """Return vectors (..., size) as padded fields (..., nx + 2 G, ny + 2 G)."""
        fields, at, shape = [], 0, self._flow.grid.padded_shape
        for x, y in self._inside:
            inside = x.stop - x.start, y.stop - y.start
            field = np.zeros((*vectors.shape[:-1], *shape), vectors.dtype)
            last = at + inside[0] * inside[1]
            field[..., x, y] = vectors[..., at:last].reshape(*vectors.shape[:-1], *inside)
            fields.append(field)
            at = last
        return fields
