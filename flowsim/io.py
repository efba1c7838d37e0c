"""Files of a simulation: fields for ParaView, and bit-exact restarts."""

from __future__ import annotations

import functools
import hashlib
import inspect
import io
import json
import os
from collections.abc import Mapping, Sequence
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from pathlib import Path
from typing import Any

import h5py
import numpy as np

from flowsim.grid import Grid
from flowsim.render.quantities import Quantity
from flowsim.simulation import Simulation

_COMPRESSION: dict[str, Any] = {"compression": "gzip", "compression_opts": 4, "shuffle": True}
_COMPONENTS: dict[str, tuple[int, ...]] = {
    "velocity": (3,),
    "vorticity": (),
    "pressure": (),
    "solid": (),
}
_SEAL = 512  # bytes before the HDF5 content of a restart file: the HDF5 user block
_FORMAT = "flowsim restart 2"


# --- fields for ParaView ---------------------------------------------------------------------------------------------


def write_fields(
    path: str | Path, simulation: Simulation, b: int = 0, more: Sequence[Quantity] = ()
) -> None:
    """Write velocity, vorticity, pressure and solid fraction at the cell centres to a VTKHDF file for ParaView.

    Parameters
    ----------
    path : str or Path
        The file, ``.vtkhdf``, written atomically.
    simulation : Simulation
    b : int
        Index of the simulation in the batch.
    more : sequence of Quantity
        Additional fields, such as :data:`flowsim.render.quantities.Q`.
    """
    write_whole(Path(path), pack_fields(simulation, b, more))


def pack_fields(simulation: Simulation, b: int = 0, more: Sequence[Quantity] = ()) -> bytes:
    """Return the content of the file that :func:`write_fields` writes."""
    plane = simulation.velocity_at_centres()[b]
    cells = {
        "velocity": np.concatenate([plane, np.zeros_like(plane[..., :1])], axis=-1),
        "vorticity": simulation.vorticity()[b],
        "pressure": simulation.pressure[b],
        "solid": simulation.solid()[b],
    }
    cells |= {quantity.name: quantity.of(simulation, b) for quantity in other_fields(more)}
    buffer = io.BytesIO()
    with h5py.File(buffer, "w") as file:
        group = _image(file, simulation.grid)
        for name, values in cells.items():
            # x varies fastest in VTK, so arrays are (z, y, x); the flow is one cell thick
            values = np.swapaxes(np.asarray(values, simulation.dtype), 0, 1)[None]
            group.create_dataset(name, data=values, chunks=values.shape, **_COMPRESSION)
    return buffer.getvalue()


def other_fields(shown: Sequence[Quantity]) -> list[Quantity]:
    """Return the quantities that a file does not contain by default."""
    return [quantity for quantity in shown if quantity.name not in (*_COMPONENTS, "speed")]


def _image(file: h5py.File, grid: Grid) -> h5py.Group:
    """Describe the grid as a VTK image and return the group for its cell data."""
    group = file.create_group("VTKHDF")
    group.attrs["Version"] = np.array([2, 0], np.int64)
    group.attrs.create("Type", np.bytes_("ImageData"))
    group.attrs["WholeExtent"] = np.array([0, grid.nx, 0, grid.ny, 0, 1], np.int64)
    group.attrs["Origin"] = np.zeros(3)
    group.attrs["Spacing"] = np.full(3, grid.h)
    group.attrs["Direction"] = np.eye(3).ravel()
    return group.create_group("CellData")


class FieldSeries:
    """A VTKHDF file with all output times of a simulation, which ParaView opens as one data set.

    The fields of each time are in a separate VTKHDF file, ``NAME/000000.vtkhdf`` next to ``NAME.vtkhdf``, which
    contains the times and refers to the fields as virtual datasets, as VTK's own writer does for external time steps.

    Parameters
    ----------
    path : str or Path
        ``NAME.vtkhdf``.
    grid : Grid
    dtype : str or dtype
        Precision of the simulation.
    until : float, optional
        Continue the existing series after this time; start a new series unless given.
    more : sequence of Quantity
        Additional fields, as passed to :func:`pack_fields`.

    Attributes
    ----------
    times : list of float
    """

    # A single growing HDF5 file would be corrupted by a kill or a full disk during an append, and would not shrink
    # when a time is removed. So every file is written once, under a temporary name, and renamed.

    def __init__(
        self,
        path: str | Path,
        grid: Grid,
        dtype: Any,
        until: float | None = None,
        more: Sequence[Quantity] = (),
    ) -> None:
        self.path, self._grid, self._dtype = Path(path), grid, np.dtype(dtype)
        others: dict[str, tuple[int, ...]] = {quantity.name: () for quantity in other_fields(more)}
        self._components = _COMPONENTS | others
        self.times: list[float] = []
        self._names: list[str] = []
        if until is not None and self.path.exists():
            with h5py.File(self.path) as file:
                times = file["VTKHDF/Steps/Values"][...]
                names = [
                    source.file_name
                    for source in file["VTKHDF/CellData/pressure"].virtual_sources()
                ]
            kept = [(float(t), name) for t, name in zip(times, names, strict=True) if t <= until]
            self.times, self._names = [t for t, _ in kept], [name for _, name in kept]
        self._folder.mkdir(parents=True, exist_ok=True)
        self._replace_index(self._index(self.times, self._names))
        self._next = 1 + max((int(Path(name).stem) for name in self._names), default=-1)

    @property
    def _folder(self) -> Path:
        return self.path.with_suffix("")

    def size(self) -> int:
        """Return the size of all files in bytes."""
        return sum(
            file.stat().st_size for file in [self.path, *self._folder.iterdir()] if file.exists()
        )

    def size_with(self, content: bytes) -> int:
        """Return the largest size of all files in bytes while one more time is appended."""
        grown = self._index([*self.times, 0.0], [*self._names, self._name(self._next)])
        return self.size() + len(content) + len(grown)

    def append(self, time: float, content: bytes) -> None:
        """Append a time with fields from :func:`pack_fields`."""
        name = self._name(self._next)
        write_whole(self.path.parent / name, content)
        self.times.append(time)
        self._names.append(name)
        self._next += 1
        write_whole(self.path, self._index(self.times, self._names))

    def thin(self) -> None:
        """Remove every other time and keep the first."""
        self.times, self._names = self.times[::2], self._names[::2]
        self._replace_index(self._index(self.times, self._names))

    def _name(self, number: int) -> str:
        return f"{self._folder.name}/{number:06d}.vtkhdf"

    def _replace_index(self, content: bytes) -> None:
        """Write the index, then remove the files that it no longer refers to."""
        write_whole(self.path, content)
        for file in self._folder.glob("*.vtkhdf"):
            if f"{self._folder.name}/{file.name}" not in self._names:
                file.unlink()

    def _index(self, times: list[float], names: list[str]) -> bytes:
        buffer = io.BytesIO()
        with h5py.File(buffer, "w") as file:
            cells = _image(file, self._grid)
            steps = file["VTKHDF"].create_group("Steps")
            steps.attrs["NSteps"] = len(times)
            steps["Values"] = np.array(times, np.float64)
            offsets = steps.create_group("CellDataOffsets")
            for name, components in self._components.items():
                shape = (1, self._grid.ny, self._grid.nx, *components)
                layout = h5py.VirtualLayout((len(times), *shape), self._dtype)
                for n, source in enumerate(names):
                    layout[n] = h5py.VirtualSource(
                        source, f"VTKHDF/CellData/{name}", shape, self._dtype
                    )
                # a file that was deleted shows as NaN, not as a flow at rest
                cells.create_virtual_dataset(name, layout, fillvalue=np.nan)
                offsets[name] = np.arange(len(times))
        return buffer.getvalue()


# --- restarts --------------------------------------------------------------------------------------------------------


def write_restart(
    path: str | Path, simulation: Simulation, notes: Mapping[str, float] | None = None
) -> None:
    """Write the complete state of every simulation of a batch, and what its instruments have measured.

    Parameters
    ----------
    path : str or Path
        The file, replaced atomically: a header of 512 bytes with a checksum, then HDF5.
    simulation : Simulation
    notes : mapping, optional
        Numbers that :func:`read_restart` returns.
    """
    write_whole(Path(path), pack_restart(simulation, notes))


def pack_restart(simulation: Simulation, notes: Mapping[str, float] | None = None) -> bytes:
    """Return the content of the file that :func:`write_restart` writes."""
    buffer = io.BytesIO()
    with h5py.File(buffer, "w", userblock_size=_SEAL) as file:
        file.attrs["setup"] = json.dumps(_setup(simulation))
        file.attrs["notes"] = json.dumps(dict(notes or {}))
        for b in range(simulation.batch):
            group = file.create_group(f"member{b}")
            for name, array in simulation.get_state(b).items():
                group[name] = array
        for n, instrument in enumerate(simulation.instruments):
            group = file.create_group(f"instrument{n}")
            for name, array in instrument.get_state().items():
                group[name] = array
    content = buffer.getvalue()[_SEAL:]
    return _seal(content) + content


def read_restart(path: str | Path, simulation: Simulation) -> dict[str, float]:
    """Restore every simulation of a batch from a restart file; they continue bit for bit as the originals would.

    An instrument of the simulation continues as well if the file contains one of the same kind at the same position,
    with the same interval, start and probes; other instruments start from scratch.

    Parameters
    ----------
    path : str or Path
        A file written by :func:`write_restart`.
    simulation : Simulation
        Same set-up as the one that was written, except for sensors, and for the viscosity, which is read from the file.
        It is left unchanged when the file is refused.

    Returns
    -------
    dict
        The notes that were written.

    Raises
    ------
    ValueError
        When the file is not a restart file, is damaged, or belongs to another set-up.
    OSError
        When it cannot be read.
    """
    sealed = Path(path).read_bytes()
    if not sealed.startswith(_FORMAT.encode()):
        raise ValueError(f"{path} is not a restart file of this version ({_FORMAT!r})")
    if sealed[:_SEAL] != _seal(sealed[_SEAL:]):
        raise ValueError(
            f"the restart file {path} is damaged: its {len(sealed)} bytes do not match its checksum"
        )
    with h5py.File(io.BytesIO(sealed), "r") as file:
        if other := _difference(json.loads(file.attrs["setup"]), _setup(simulation)):
            key, theirs, ours = other
            raise ValueError(
                f"the restart file {path} belongs to a simulation with {key} = {theirs}, but this one has {ours}"
            )
        members = [
            {name: array[()] for name, array in file[f"member{b}"].items()}
            for b in range(simulation.batch)
        ]
        if not _same_force_field(members, simulation):
            raise ValueError(
                f"the restart file {path} belongs to a simulation with another force_field"
            )
        for b, state in enumerate(members):
            simulation.set_state(b, state)
        for n, instrument in enumerate(simulation.instruments):
            group = file.get(f"instrument{n}", {})
            state = {name: array[()] for name, array in group.items()}
            if instrument.fits(state):
                instrument.set_state(state)
        notes: dict[str, float] = json.loads(file.attrs["notes"])
    return notes


def _seal(content: bytes) -> bytes:
    """Return the header of a restart file, whose checksum reveals damaged files before they are parsed."""
    return f"{_FORMAT} sha256 {hashlib.sha256(content).hexdigest()}\n".encode().ljust(_SEAL, b"\0")


def _setup(simulation: Simulation) -> dict[str, Any]:
    """Return the set-up that two simulations must share to exchange states."""
    setup = {
        "grid": _describe(simulation.grid),
        "sides": _describe(simulation.sides),
        "bodies": [_describe(body) for body in simulation.bodies],
        "batch": simulation.batch,
        "dtype": simulation.dtype.name,
        "integrator": simulation.integrator,
        "cfl": simulation.cfl,
        "penalty": simulation.penalty,
        "stream": simulation.stream,
        "gravity": simulation.gravity,
    }
    if simulation.jets:
        setup["jets"] = [_describe(jet) for jet in simulation.jets]
    if simulation.is_forced:
        setup |= simulation.given_forcing()
    if simulation.heat is not None:
        setup["temperature"] = _describe(simulation.heat)
    # JSON turns tuples into lists, as in a set-up that is read from a file
    described: dict[str, Any] = json.loads(json.dumps(setup, default=_plain))
    return described


def _same_force_field(members: Sequence[dict[str, Any]], simulation: Simulation) -> bool:
    """Return whether states have the force field of a simulation, whose function is code and cannot be compared."""
    return all(
        np.allclose(state[name], own[name], rtol=1e-5, atol=1e-6)
        for b, state in enumerate(members)
        for own in (simulation.get_state(b),)
        for name in ("force_x", "force_y")
        if name in state and name in own
    )


def _difference(written: Any, own: Any, key: str = "") -> tuple[str, Any, Any] | None:
    """Return the first key at which two set-ups differ and both values, or None if they are equal."""
    if written == own:
        return None
    inner: list[tuple[Any, Any, Any]] = []
    if (
        isinstance(written, dict)
        and isinstance(own, dict)
        and written.get("kind") == own.get("kind")
    ):
        inner = [(name, written.get(name), own.get(name)) for name in sorted(written | own)]
    elif isinstance(written, list) and isinstance(own, list) and len(written) == len(own):
        inner = [(n, *both) for n, both in enumerate(zip(written, own, strict=True))]
    found = (_difference(theirs, ours, f"{key}.{name}".lstrip(".")) for name, theirs, ours in inner)
    return next((difference for difference in found if difference), (key, written, own))


def _describe(thing: Any) -> dict[str, Any]:
    values = {field.name: getattr(thing, field.name) for field in dataclass_fields(thing)}
    return {"kind": type(thing).__name__} | {
        name: value for name, value in values.items() if value is not None
    }


def _plain(value: Any) -> Any:
    """Return a JSON representation of a value that is the same in every process."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if is_dataclass(value):
        return _describe(value)
    if isinstance(value, functools.partial):
        return [value.func, value.args, value.keywords]
    if inspect.isfunction(value):
        # a motion or a distance is code: compare its name and the values that it closes over
        made_with = {
            k: v for k, v in inspect.getclosurevars(value).nonlocals.items() if v is not value
        }
        return {"kind": f"{value.__module__}.{value.__qualname__}"} | made_with
    return getattr(value, "__qualname__", type(value).__qualname__)


def write_whole(path: Path, content: bytes) -> None:
    """Write a file atomically, under a temporary name that is renamed to ``path``, which is safe against crashes.

    Raises
    ------
    OSError
        When it cannot be written; an existing file stays unchanged, and the temporary file is removed.
    """
    beside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with beside.open("wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        beside.replace(path)
    except OSError as error:  # it names the temporary file, or none
        raise OSError(error.errno, error.strerror, str(path)) from None
    finally:
        beside.unlink(missing_ok=True)
