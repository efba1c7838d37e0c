"""Banks of developed flows used as initial states: simulated on first use, cached, and verified when read."""

from __future__ import annotations

import hashlib
import json
import math
import os
import sys
import time
import warnings
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, cast

import filelock
import numpy as np
import numpy.typing as npt

from flowsim import Simulation
from flowsim.backend.sources import digest_of, sources_of
from flowsim.backend.user_cache import cache_folder
from flowsim.bodies.table import BodyTable, springs_of
from flowsim.stability.damping import SelectiveFrequencyDamping

Arrays = dict[str, npt.NDArray[Any]]

LOCK_TIMEOUT = 3600.0
OF_BODIES = ("springs", "gait", "form", "midlines")
"""Names of arrays of a state with an entry for each body, besides those that begin with ``body_``."""


@dataclass(frozen=True)
class Development:
    """How the flows of a bank are computed.

    Attributes
    ----------
    time : float
        Time until the flow is developed.
    snapshots : int
        Number of stored states.
    spacing : float
        Time between two snapshots; choose one that does not divide a period.
    bodies : int, optional
        Number of the task's bodies, counted from the first, that are present while the flow develops; all by default.
        The others, and their jets, appear at the start of an episode, where `place` puts them or else at their own
        positions.

    Raises
    ------
    ValueError
        For a time that is negative, a spacing that is not positive, or too few snapshots: at least one, or one for each
        purpose with ``split``.
    """

    time: float
    snapshots: int = 24
    spacing: float = 1.9
    bodies: int | None = None
    push: float = 0.3
    """Upward velocity of the initial disturbance behind the first body (`FlowTask.disturb`). If the flow has two
    mirrored branches, the sign selects one of them."""
    split: bool = False
    """Whether training, validation and test each get a third of the states, consecutive in time. If not, all of them
    use all states. With a split, the first episode of a validation or test seed takes the state with the index seed
    modulo the number of their states, so that consecutive seeds take different states."""
    damping: tuple[float, float] | None = None
    """chi and Delta of the selective frequency damping with which the flow converges to the steady state even if that
    is unstable (see `flowsim.base_flow` for how to choose them)."""

    def __post_init__(self) -> None:
        if not (math.isfinite(self.time) and self.time >= 0.0):
            raise ValueError(
                f"time = {self.time!r}: a flow develops for a time that is not negative"
            )
        if not (math.isfinite(self.spacing) and self.spacing > 0.0):
            raise ValueError(f"spacing = {self.spacing!r}: the time between two states is positive")
        least = len(SEEDS) if self.split else 1
        if self.snapshots < least:
            raise ValueError(
                f"snapshots = {self.snapshots!r}: a bank has at least {least}, split = {self.split}"
            )

    @property
    def held_out_states(self) -> int:
        """Number of states for validation and for test, taken in turn; 0 if every episode samples its state."""
        return self.snapshots // len(SEEDS) if self.split else 0

    def draw(self, generator: np.random.Generator) -> int:
        """Return the index of the state that an episode starts from, given its generator."""
        seed, source = seed_of(generator), generator.bit_generator
        states, fresh = self.states_of(seed), type(source)(cast(Any, source.seed_seq))
        is_first = source.state == fresh.state  # nothing has been sampled from the generator yet
        drawn = int(generator.integers(len(states)))
        held_out = self.split and seed not in SEEDS["training"]
        return states[seed % len(states) if held_out and is_first else drawn]

    def states_of(self, seed: int) -> range:
        """Return the indices of the states that an episode with this seed may start from."""
        if not self.split:
            return range(self.snapshots)
        third = self.snapshots // len(SEEDS)
        number = next((n for n, seeds in enumerate(SEEDS.values()) if seed in seeds), 0)
        return range(number * third, (number + 1) * third)


SEEDS = {
    "training": range(2**31),
    "validation": range(3 * 2**30, 2**32),
    "test": range(2**31, 3 * 2**30),
}
"""Seeds of each purpose, as in `rl_agent.rollout.seeds`; any other seed is for training."""


def seed_of(generator: np.random.Generator) -> int:
    """Return the seed that a generator was created with, or its first word if it has several."""
    entropy = getattr(generator.bit_generator.seed_seq, "entropy", None)
    return int(np.ravel(entropy)[0]) if entropy is not None else 0


def solver_fingerprint() -> str:
    """Return a hash of the solver's source, so that a bank is recomputed when the solver changes."""
    physics = ("flowsim.simulation", "flowsim.backend.cpu", "flowsim.backend.cuda")
    return digest_of(sources_of(*physics)).hex()


def load_or_build(
    simulation: Simulation, development: Development, disturb: Callable[[Simulation], None]
) -> Arrays:
    """Return the bank of a flow, read from the cache if it contains a valid one.

    The bank contains the arrays of `Simulation.get_state`, stacked along a leading axis of snapshots, with all clocks
    set to zero.

    Parameters
    ----------
    simulation : Simulation
        A batch of one in its initial state, which is advanced if the bank has to be built.
    development : Development
    disturb : callable
        Adds a disturbance to the flow, so that instabilities do not have to grow from round-off errors. It is called
        even if the bank is in the cache, which is searched for the disturbed flow; so it must not be random.

    Raises
    ------
    FloatingPointError
        If the flow diverges.
    TimeoutError
        If another process builds the same bank for more than an hour.
    ValueError
        If a body or an inflow is a function of time, which cannot be restarted at the beginning of an episode.
    """
    how = asdict(development)
    del how["split"]  # the split does not change the states
    if development.damping is None:
        del how["damping"]  # keeps the keys of banks from versions without damping
    recipe = recipe_of(simulation) | {"development": how, "solver": solver_fingerprint()}
    disturb(simulation)
    # what the task's code did to the flow, however it did it
    recipe["start"] = content_hash(simulation.get_state(0))
    key = hashlib.sha256(json.dumps(recipe, sort_keys=True).encode()).hexdigest()[:20]
    path = cache_folder("flows") / f"flow-{key}.npz"
    bank = _read(path)
    if bank is not None:
        return bank
    # The lock avoids building a bank twice; the rename prevents reading a half-written file.
    try:
        with filelock.FileLock(path.with_suffix(".lock"), timeout=LOCK_TIMEOUT):
            bank = _read(path)
            if bank is None:
                bank = _simulate(simulation, development)
                _write(path, bank)
    except filelock.Timeout:
        raise TimeoutError(
            f"waited {LOCK_TIMEOUT:.0f} s for another process to build the bank of flows {path}: remove "
            f"{path.with_suffix('.lock')} if no such process is running"
        ) from None
    return bank


def recipe_of(simulation: Simulation) -> dict[str, Any]:
    """Return everything that the flow depends on except the solver.

    Bodies are represented by the arrays that the solver uses, so that the recipe is complete without help of the task.
    """
    if any(callable(body.motion) for body in simulation.bodies):
        raise ValueError(
            "a body is driven by a function of time, so its flow has no bank of states"
        )
    if simulation._has_varying_inflow():
        raise ValueError("an inflow is a function of time, so its flow has no bank of states")
    grid, state = simulation.grid, simulation.body_state
    heat = {} if (table := simulation.heat_table) is None else table._asdict()
    inflows = simulation.inflow_profiles()
    return {
        "grid": (grid.nx, grid.ny, grid.h),
        "sides": asdict(simulation.sides),
        "stream": tuple(simulation.stream),
        "gravity": tuple(simulation.gravity),
        "viscosity": simulation.viscosity.tolist(),
        "numerics": (simulation.integrator, simulation.cfl, simulation.penalty),
        "dtype": simulation.dtype.name,
        "jets": [asdict(jet) for jet in simulation.jets],
        "bodies": content_hash({
            **{f"table_{n}": values for n, values in enumerate(BodyTable.of(simulation.bodies, grid.h)[:7])},
            "springs": springs_of(simulation.bodies),
            "position": state.position, "angle": state.angle, "velocity": state.velocity,
        }),
        "temperature": content_hash(heat),
        **({"inflows": content_hash(inflows)} if inflows else {}),
    }  # fmt: skip


def content_hash(states: Arrays) -> str:
    """Return a hash of names, types, shapes and values."""
    digest = hashlib.sha256()
    for name in sorted(states):
        array = np.ascontiguousarray(states[name])
        digest.update(f"{name} {array.dtype.str} {array.shape}".encode())
        digest.update(array.tobytes())
    return digest.hexdigest()


def _read(path: Path) -> Arrays | None:
    """Return the bank in a file, or None if the file is missing or damaged (with a warning)."""
    if not path.exists():
        return None
    try:
        with np.load(path, allow_pickle=False) as file:
            states = {name: file[name] for name in file.files}
        expected = str(states.pop("sha256"))
    except Exception:  # a flipped bit in a header can raise anything
        expected, states = "", {}
    if not states or content_hash(states) != expected:
        warnings.warn(f"the bank of flows {path} is damaged and is built again", stacklevel=2)
        return None
    return states


def _write(path: Path, states: Arrays) -> None:
    beside = path.with_name(f".{path.stem}.{os.getpid()}.npz")
    try:
        np.savez_compressed(beside, sha256=np.array(content_hash(states)), **states)  # type: ignore[arg-type]
        os.replace(beside, path)
    finally:
        beside.unlink(missing_ok=True)


def _simulate(simulation: Simulation, development: Development) -> Arrays:
    """Develop the disturbed flow and return the snapshots, stacked."""
    progress = _Progress(development.time + development.snapshots * development.spacing)
    damping = development.damping
    states: list[Arrays] = []
    with SelectiveFrequencyDamping(simulation, *damping) if damping else nullcontext():
        while simulation.time[0] < development.time:
            simulation.advance(1.0)
            progress.show(float(simulation.time[0]))
        for _ in range(development.snapshots):
            simulation.advance(development.spacing)
            progress.show(float(simulation.time[0]))
            states.append(simulation.get_state(0))
    if bool(simulation.diverged[0]):
        raise FloatingPointError(
            "the flow that episodes start from diverged: use a finer grid or a smaller cfl"
        )
    bank = {name: np.stack([state[name] for state in states]) for name in states[0]}
    return bank | {name: np.zeros_like(bank[name]) for name in ("time", "steps")}


def with_bodies(bank: Arrays, start: Arrays) -> Arrays:
    """Return the states of a bank for a flow with more bodies, which are added as they are in its initial state.

    Parameters
    ----------
    bank : dict of arrays
        States of the flow with its first bodies, or all.
    start : dict of arrays
        Initial state of the flow with all bodies, from `Simulation.get_state`.
    """
    first, completed = bank["body_angle"].shape[1], dict(bank)
    for name, values in start.items():
        each = np.repeat(values[None], len(bank["u"]), axis=0)
        if name in bank and (name.startswith("body_") or name in OF_BODIES):
            completed[name] = np.concatenate([bank[name], each[:, first:]], axis=1)
        elif name not in bank or bank[name].shape != each.shape:  # jets of bodies that are added
            completed[name] = each
    return completed


class _Progress:
    """Reports progress and remaining time of a long simulation on stderr; short ones print nothing."""

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
                "flowsim: simulating the flow that episodes start from, once: "
                f"{done / self._total:.0%}, about {left:.0f} s left",
                file=sys.stderr,
                flush=True,
            )
