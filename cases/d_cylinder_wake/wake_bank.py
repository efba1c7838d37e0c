"""A bank of developed wakes of the cylinder alone: simulated on first use, cached, checked when read."""

from __future__ import annotations

import hashlib
import json
import os
import sys
import time
import warnings
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import filelock
import numpy as np
import numpy.typing as npt

from flowsim import Simulation
from flowsim.backend.sources import digest_of, sources_of
from flowsim.backend.user_cache import cache_folder

Arrays = dict[str, npt.NDArray[Any]]

SNAPSHOTS = 24
DEVELOPMENT_TIME = 80.0
"""Time, in D/U, until the vortex street is periodic; between far-field sides it swings less widely before."""
SPACING = 1.9
"""Time between snapshots: 24 of them cover nine to fourteen shedding periods, and no two the same phase."""
LOCK_TIMEOUT = 3600.0


def solver_fingerprint() -> str:
    """Return a hash of the solver's own source, so that a bank never outlives the solver that made it."""
    physics = ("flowsim.simulation", "flowsim.backend.cpu", "flowsim.backend.cuda")
    return digest_of(sources_of(*physics)).hex()


def load_or_build(
    configuration: Mapping[str, Any], cylinder_alone: Callable[[], Simulation]
) -> Arrays:
    """Return the bank for a flow configuration, from the cache if it is there and sound.

    It is what `Simulation.get_state` returns of the cylinder alone, stacked along a leading axis of snapshots.

    Parameters
    ----------
    configuration : mapping
        Everything that the wake depends on; part of the name of the file.
    cylinder_alone : callable
        Makes a batch of one with the cylinder alone, if the bank has to be built.

    Raises
    ------
    TimeoutError
        If another process builds the same bank for more than an hour.
    """
    recipe = {
        **configuration,
        "snapshots": SNAPSHOTS,
        "development_time": DEVELOPMENT_TIME,
        "spacing": SPACING,
        "solver": solver_fingerprint(),
    }
    key = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:20]
    path = cache_folder("wakes") / f"wake-{key}.npz"
    bank = _read(path)
    if bank is not None:
        return bank
    # The lock saves the work of a second builder; that no half-written file is read is due to the rename.
    try:
        with filelock.FileLock(path.with_suffix(".lock"), timeout=LOCK_TIMEOUT):
            bank = _read(path)
            if bank is None:
                bank = _simulate(cylinder_alone())
                _write(path, bank)
    except filelock.Timeout:
        raise TimeoutError(
            f"waited {LOCK_TIMEOUT:.0f} s for another process to build the wake bank {path}: "
            f"remove {path.with_suffix('.lock')} if there is none"
        ) from None
    return bank


def content_hash(states: Arrays) -> str:
    """Return a hash of names, types, shapes and values."""
    digest = hashlib.sha256()
    for name in sorted(states):
        array = np.ascontiguousarray(states[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _read(path: Path) -> Arrays | None:
    """Return the bank in a file, None if there is none or if it is damaged (with a warning)."""
    if not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as file:
            states = {name: file[name] for name in file.files}
        expected = str(states.pop("sha256"))
    except Exception:  # whatever a flipped bit makes of the header of an array or of the archive
        expected, states = "", {}
    if not states or content_hash(states) != expected:
        warnings.warn(f"the wake bank {path} is damaged and is built again", stacklevel=2)
        return None
    return states


def _write(path: Path, states: Arrays) -> None:
    beside = path.with_name(f".{path.stem}.{os.getpid()}.npz")
    try:
        np.savez_compressed(beside, sha256=np.array(content_hash(states)), **states)  # type: ignore[arg-type]
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def _simulate(simulation: Simulation) -> Arrays:
    """Develop the wake and return the snapshots, stacked."""
    progress = _Progress(DEVELOPMENT_TIME + SNAPSHOTS * SPACING)
    _disturb(simulation)
    while simulation.time[0] < DEVELOPMENT_TIME:
        simulation.advance(1.0)
        progress.show(float(simulation.time[0]))
    states: list[Arrays] = []
    for _ in range(SNAPSHOTS):
        simulation.advance(SPACING)
        progress.show(float(simulation.time[0]))
        states.append(simulation.get_state(0))
    if bool(simulation.diverged[0]):
        raise FloatingPointError(
            "the wake of the cylinder alone diverged: use a finer grid or a smaller cfl"
        )
    return {name: np.stack([state[name] for state in states]) for name in states[0]}


def _disturb(simulation: Simulation) -> None:
    """Push the water behind the cylinder upwards, so that shedding need not wait for round-off."""
    x, y = simulation.grid.v_faces()
    x0, y0 = simulation.body_state.position[0, 0] + (1.0, 0.0)
    bump = 0.3 * np.exp(-((x - x0) ** 2 + (y - y0) ** 2) / 0.5**2)
    simulation.add_velocity(0, 0.0, bump)
    simulation.settle()


class _Progress:
    """Tells on stderr how far a long simulation is and how long it will still take; nothing of a short one."""

    interval = 2.0

    def __init__(self, total: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._total, self._clock = total, clock
        self._began = self._last = clock()

    def show(self, done: float) -> None:
        now = self._clock()
        if now - self._last >= self.interval:
            self._last = now
            left = max(0.0, (now - self._began) * (self._total - done) / done)
            print(
                "flowsim: simulating the wake of the cylinder alone, once: "
                f"{done / self._total:.0%}, about {left:.0f} s left",
                file=sys.stderr,
                flush=True,
            )
