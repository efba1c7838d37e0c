"""Detection of data races between the threads of a kernel in numba's simulator.

The simulator runs blocks one after the other, so a kernel that lacks a barrier may well be right in it. Here the arrays
of a kernel note every element that a thread reads or writes, and how many barriers the thread had passed by then. Two
threads conflict if one writes an element that the other reads or writes, and nothing orders them:

- in shared memory, threads of one block between the same two barriers;
- in global memory, those, and threads of different blocks of a launch;
- where launches may go on beside others (``Device.beside``), threads of the one and of the other.

Atomic accesses conflict with plain ones, but not with each other. Fences are not seen: what they order needs an
:class:`Allowance`. A warp has one thread in the simulator (``launching.WARP``): what is exchanged by shuffles is not
seen, either, and nothing else orders the threads of a warp. Nor are transforms and copies, which are no kernels.
"""

import functools
import inspect
import sys
import threading
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest
from numba.core import types
from numba.cuda.simulator import kernelapi
from numba.cuda.simulator.cudadrv.devicearray import FakeCUDAArray
from numba.cuda.simulator.kernel import FakeCUDAKernel
from numba.np import numpy_support

from flowsim.backend.cuda.device import Device

__all__ = ["Allowance", "Conflict", "Recorder", "recording"]

READ, WRITE, ATOMIC = range(3)
ATOMICS = (
    "add",
    "sub",
    "and_",
    "or_",
    "xor",
    "inc",
    "dec",
    "exch",
    "max",
    "min",
    "nanmax",
    "nanmin",
    "cas",
)


class Access(NamedTuple):
    """An element, read or written by a thread.

    Attributes
    ----------
    memory : Memory
    thread : simulator.Thread
    barriers : int
        That the thread had passed.
    kind : int
        READ, WRITE or ATOMIC.
    bits : bytes
        That were written; none if ``kind`` is another.
    code, line
        Of the function that did it.
    """

    memory: "Memory"
    thread: Any
    barriers: int
    kind: int
    bits: bytes
    code: Any
    line: int

    def __str__(self) -> str:
        kind = ("read", "written", "changed atomically")[self.kind]
        thread, block = tuple(self.thread.threadIdx), self.thread.block
        place = f"{Path(self.code.co_filename).name}:{self.line}"
        return (
            f"{kind} by thread {thread} of block {block} after {self.barriers} barriers ({place})"
        )


class Conflict(NamedTuple):
    """Two accesses to an element in no order.

    Attributes
    ----------
    kernel : str
        The name of the kernel, or "one beside other".
    array : str
        The name of the argument, or "shared:FILE:LINE" by the line that makes the array.
    kind : str
        "write-write" or "read-write".
    one_value : bool
        Whether only one value was written to the element, and by no atomic operation.
    own_reads : bool
        Whether every thread that read the element had written it before.
    index : tuple of int
        Of the element.
    first, second : Access
    """

    kernel: str
    array: str
    kind: str
    one_value: bool
    own_reads: bool
    index: tuple[int, ...]
    first: Access
    second: Access

    def __str__(self) -> str:
        notes = ", one value" * self.one_value + ", own reads" * self.own_reads
        what = f"{self.kernel}: {self.kind} of {self.array}{list(self.index)}{notes}"
        return f"{what}: {self.first}; {self.second}"


class Allowance(NamedTuple):
    """Intended conflicts of a kernel in an array.

    By default only those where the order does not matter: all threads write one value, and each thread that reads it
    has written it before.
    """

    kernel: str
    array: str
    one_value: bool = True
    own_reads: bool = True

    def covers(self, conflict: Conflict) -> bool:
        """Return whether a conflict is intended."""
        return (
            (self.kernel, self.array) == (conflict.kernel, conflict.array)
            and self.one_value <= conflict.one_value
            and self.own_reads <= conflict.own_reads
        )


class Memory:
    """Arrays of a launch, and the accesses to them.

    Attributes
    ----------
    kernel : str
    arrays : dict
        By name.
    touched : dict
        The accesses to every address, in the order in which they came.
    """

    def __init__(self, kernel: str) -> None:
        self.kernel = kernel
        self.arrays: dict[str, np.ndarray] = {}
        self.touched: dict[int, list[Access]] = {}

    def note(self, address: int, kind: int, bits: bytes = b"") -> None:
        """Record an access of this thread."""
        thread, frame = threading.current_thread(), _caller()
        access = Access(self, thread, thread.barriers, kind, bits, frame.f_code, frame.f_lineno)
        self.touched.setdefault(address, []).append(access)

    def where(self, address: int) -> tuple[str, tuple[int, ...]]:
        """Return the name of the array and the index that an address belongs to."""
        for name, array in self.arrays.items():
            offset = address - _address(array)
            if 0 <= offset < array.nbytes:
                index = np.unravel_index(offset // array.itemsize, array.shape)
                return name, tuple(map(int, index))
        raise LookupError(f"{self.kernel}: an address that belongs to no array")


class RecordingArray:
    """An array as a kernel sees it, which records reads and writes.

    Parameters
    ----------
    array : ndarray
    memory : Memory
    """

    def __init__(self, array: np.ndarray, memory: Memory) -> None:
        self._array, self._memory, self._start = array, memory, _address(array)
        self.dtype, self.shape, self.size = array.dtype, array.shape, array.size

    @property
    def T(self) -> "RecordingArray":  # noqa: N802 - as NumPy calls it
        """The transposed array."""
        return RecordingArray(self._array.T, self._memory)

    def __len__(self) -> int:
        return len(self._array)

    def __getitem__(self, index: Any) -> Any:
        value = self._array[index]
        if isinstance(value, np.ndarray):
            return RecordingArray(value, self._memory)
        self._memory.note(self._address(index), READ)
        return value

    def __setitem__(self, index: Any, value: Any) -> None:
        address = self._address(index)
        self._array[index] = value
        self._memory.note(address, WRITE, self.dtype.type(value).tobytes())

    def change(self, operation: Callable[..., Any], index: Any, values: tuple[Any, ...]) -> Any:
        """Carry out an atomic operation."""
        self._memory.note(self._address(index), ATOMIC)
        return operation(self._array, index, *values)

    def _address(self, index: Any) -> int:
        """Return the address of one element."""
        places = index if isinstance(index, tuple) else (index,)
        steps = zip(places, self.shape, self._array.strides, strict=True)
        return self._start + sum(int(place) % length * stride for place, length, stride in steps)


def _address(array: np.ndarray) -> int:
    return array.__array_interface__["data"][0]


def _caller() -> Any:
    """Return the frame of the function that uses this module."""
    frame = sys._getframe(1)
    while frame.f_code.co_filename == __file__:
        frame = frame.f_back
    return frame


def _seen(memory: Memory, name: str, argument: Any) -> Any:
    """Return an argument of a kernel with recording arrays in place of its arrays."""
    value = argument._ary if isinstance(argument, FakeCUDAArray) else argument
    if isinstance(value, np.ndarray):
        memory.arrays[name] = value
        return RecordingArray(value, memory)
    if isinstance(value, tuple):
        names = getattr(value, "_fields", range(len(value)))
        parts = [_seen(memory, f"{name}.{part}", it) for part, it in zip(names, value, strict=True)]
        return type(value)(*parts) if hasattr(value, "_fields") else tuple(parts)
    return value


Pair = tuple[Access, Access]


def _conflicts(
    some: list[Access], others: list[Access], apart: Callable[[Access, Access], bool]
) -> dict[str, Pair]:
    """Return a pair of each kind for which ``apart`` holds: the first, of ``some``, writes."""
    found: dict[str, Pair] = {}
    for one in some:
        if one.kind == READ:
            continue
        for other in others:
            kind = "write-write" if other.kind else "read-write"
            is_atomic = one.kind == other.kind == ATOMIC
            if not is_atomic and kind not in found and apart(one, other):
                found[kind] = one, other
        if len(found) == 2:
            break
    return found


def _between_barriers(accesses: list[Access]) -> dict[str, Pair]:
    """Return conflicts of threads of the same block."""
    groups = defaultdict(list)
    for access in accesses:
        groups[access.thread.block, access.barriers].append(access)
    found: dict[str, Pair] = {}
    for group in groups.values():
        found |= _conflicts(group, group, lambda a, b: a.thread is not b.thread)
    return found


def _between_blocks(accesses: list[Access]) -> dict[str, Pair]:
    """Return conflicts of threads of different blocks."""
    if len({access.thread.block for access in accesses}) == 1:
        return {}
    return _conflicts(accesses, accesses, lambda a, b: a.thread.block != b.thread.block)


def _first(accesses: list[Access]) -> list[Access]:
    """Return the accesses without repetitions by the same thread."""
    found: dict[tuple[Any, ...], Access] = {}
    for it in accesses:
        found.setdefault((it.thread, it.barriers, it.kind, it.bits), it)
    return list(found.values())


def _agreement(accesses: Iterable[Access]) -> tuple[bool, bool]:
    """Return whether only one value was written, and whether each reader had written before."""
    values, writers, own_reads = set(), set(), True
    for it in accesses:
        if it.kind == READ:
            own_reads = own_reads and it.thread in writers
        else:
            values.add(it.bits)
            writers.add(it.thread)
    return len(values) == 1 and b"" not in values, own_reads


class _Branch:
    """Launches that may run concurrently with those that follow, and the accesses of both."""

    def __init__(self) -> None:
        self.inside: dict[int, list[Access]] = {}
        self.outside: dict[int, list[Access]] = {}


class Recorder:
    """Watches launches.

    Attributes
    ----------
    launched : set
        The functions of all kernels.
    beside : set of (str, str)
        Names of kernels of which the first was launched beside the second.
    """

    def __init__(self) -> None:
        self.launched: set[Callable[..., None]] = set()
        self.beside: set[tuple[str, str]] = set()
        self._found: dict[tuple[Any, ...], Conflict] = {}
        self._shared = Memory("")
        self._branch: _Branch | None = None
        self._open: list[_Branch] = []

    @property
    def conflicts(self) -> list[Conflict]:
        """One of each kind for a kernel and an array."""
        assert not self._open, "nobody waits for what was launched beside the rest"
        return list(self._found.values())

    def launch(self, run: Callable[..., None], kernel: FakeCUDAKernel, arguments: Any) -> None:
        """Run a kernel, and look for conflicts."""
        name, names = kernel.fn.__name__, inspect.signature(kernel.fn).parameters
        memory, self._shared = Memory(name), Memory(name)
        run(kernel, *(_seen(memory, *pair) for pair in zip(names, arguments, strict=True)))
        self.launched.add(kernel.fn)
        for part, orders in (
            (self._shared, (_between_barriers,)),
            (memory, (_between_barriers, _between_blocks)),
        ):
            for address, accesses in part.touched.items():
                if any(access.kind for access in accesses):
                    once = _first(accesses)
                    for conflicts in orders:
                        self._note(address, once, conflicts(once))
        for branch in [self._branch] if self._branch is not None else self._open:
            touched = branch.inside if branch is self._branch else branch.outside
            for address, accesses in memory.touched.items():
                touched.setdefault(address, []).extend(accesses)

    def launch_beside(self, launch: Callable[[], None]) -> Callable[[], None]:
        """Do what ``Device.beside`` does, and look for conflicts at the wait."""
        branch = self._branch = _Branch()
        launch()
        self._branch = None
        self._open.append(branch)

        def wait() -> None:
            self._open.remove(branch)
            self._compare(branch)

        return wait

    def _compare(self, branch: _Branch) -> None:
        sides = branch.inside, branch.outside
        inside, outside = (
            {it.memory.kernel for accesses in side.values() for it in accesses} for side in sides
        )
        self.beside |= {(one, other) for one in inside for other in outside}
        for address in branch.inside.keys() & branch.outside.keys():
            here, there = (_first(side[address]) for side in sides)
            turned = _conflicts(there, here, lambda a, b: True)
            found = {kind: (one, other) for kind, (other, one) in turned.items()}
            self._note(address, here + there, found | _conflicts(here, there, lambda a, b: True))

    def _note(self, address: int, accesses: list[Access], pairs: dict[str, Pair]) -> None:
        for kind, (one, other) in pairs.items():
            array, index = one.memory.where(address)
            kernels = dict.fromkeys((one.memory.kernel, other.memory.kernel))
            what = " beside ".join(kernels), array, kind, *_agreement(accesses)
            self._found.setdefault(what, Conflict(*what, index, one, other))

    def shared_array(self, shape: Any, dtype: Any) -> RecordingArray:
        """Return the array in shared memory that belongs to the line of a kernel that asks for it."""
        frame = _caller()
        name = f"shared:{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
        dtype = numpy_support.as_dtype(dtype) if isinstance(dtype, types.Type) else dtype
        array = self._shared.arrays.setdefault(name, np.empty(shape, dtype))
        return RecordingArray(array, self._shared)


@contextmanager
def recording() -> Iterator[Recorder]:
    """Watch all kernels launched by simulations that are made in this context."""
    recorder, run = Recorder(), FakeCUDAKernel.__call__

    def launch(kernel: FakeCUDAKernel, *arguments: Any) -> Any:
        is_function = kernel._device
        return run(kernel, *arguments) if is_function else recorder.launch(run, kernel, arguments)

    def atomic(operation: Callable[..., Any]) -> Callable[..., Any]:
        def change(module: Any, array: Any, index: Any, *values: Any) -> Any:
            return array.change(functools.partial(operation, module), index, values)

        return change

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FakeCUDAKernel, "__call__", launch)
        patch.setattr(kernelapi.FakeCUDAShared, "array", lambda _, *of: recorder.shared_array(*of))
        for name in ATOMICS:
            operation = getattr(kernelapi.FakeCUDAAtomic, name)
            patch.setattr(kernelapi.FakeCUDAAtomic, name, atomic(operation))
        patch.setattr(Device, "beside", lambda _, launches: recorder.launch_beside(launches))
        yield recorder
