"""Compiled loops that call recorded sweeps, step after step, without the interpreter.

A program is a table of calls: the address of a sweep, the address of its arguments, and whether it is divided. One
thread takes one simulation through all steps (:func:`run`). Several share a single large one: the leader (:func:`lead`)
posts each divided sweep on a board, and it and the assistants (:func:`assist`) process its blocks of rows. Each begins
with its own blocks, which are still in its caches since the last sweep, and continues with those that no other thread
has begun. So an assistant that has no core, or never starts, only causes a wait while it is processing a block.
"""

from __future__ import annotations

import ctypes
import functools
from collections.abc import Callable
from typing import Any

import numpy as np
from llvmlite import ir
from numba import carray, extending
from numba.core import types
from numpy.typing import NDArray

from flowsim.backend.cpu.compiling import inner
from flowsim.backend.cpu.object_code import Need, address

LINE = 8
"""Numbers in a cache line: each entry of a board has its own line."""
TICKET, FINISHED, TAKEN = 0, LINE, 2 * LINE
"""Entries of a board: the sweep that is on it, how many of its blocks are finished, and from TAKEN on, for each block,
the last sweep for which it was taken. A ticket is the number of a sweep, counted from 1, and that of its call."""
CLOSED = 1 << 62
"""The ticket of a closed board, on which nothing more will be posted."""
BLOCKS_A_THREAD = 2
"""Blocks per thread in a simulation that threads share, so that others can take over the blocks of a late thread."""
SPINS, YIELDS, NAP = 2000, 2000, 50
"""Polls of the board before yielding the core, further polls before sleeping, and microseconds of sleep."""

# Any, because what they return is called without the typing context
intrinsic: Any = extending.intrinsic
_word: Any = ir.IntType(64)
_yield: Any = types.ExternalFunction("sched_yield", types.int32())
_sleep: Any = types.ExternalFunction("usleep", types.int32(types.uint32))


@intrinsic
def _call(
    typing_context: Any, at: Any, b: Any, block: Any, blocks: Any, worker: Any, words: Any
) -> Any:
    """Call the sweep at an address."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        prototype = ir.FunctionType(ir.VoidType(), [_word] * 4 + [ir.IntType(8).as_pointer()])
        function = builder.inttoptr(args[0], prototype.as_pointer())
        builder.call(function, [*args[1:5], builder.inttoptr(args[5], prototype.args[4])])
        return context.get_dummy_value()

    return types.none(*[types.int64] * 6), generate


@intrinsic
def _load(typing_context: Any, board: Any, place: Any) -> Any:
    """Read an entry of the board, with acquire ordering."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.load_atomic(builder.gep(args[0], [args[1]]), "acquire", 8)

    return types.int64(board, types.int64), generate


@intrinsic
def _store(typing_context: Any, board: Any, place: Any, value: Any) -> Any:
    """Write an entry of the board, with release ordering."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.store_atomic(args[2], builder.gep(args[0], [args[1]]), "release", 8)
        return context.get_dummy_value()

    return types.none(board, types.int64, types.int64), generate


@intrinsic
def _increment(typing_context: Any, board: Any, place: Any) -> Any:
    """Add one to an entry of the board, and return its previous value."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        one = ir.Constant(_word, 1)
        return builder.atomic_rmw("add", builder.gep(args[0], [args[1]]), one, "acq_rel")

    return types.int64(board, types.int64), generate


@intrinsic
def _take(typing_context: Any, board: Any, place: Any, number: Any) -> Any:
    """Take a block for the sweep of a number, and return whether it was still available."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        before = builder.sub(args[2], ir.Constant(_word, 1))
        at = builder.gep(args[0], [args[1]])
        return builder.extract_value(builder.cmpxchg(at, before, args[2], "acq_rel", "acquire"), 1)

    return types.boolean(board, types.int64, types.int64), generate


@inner
def _wait(looks: int) -> None:
    """Wait a little, longer after more polls without success."""
    if looks > SPINS + YIELDS:
        _sleep(NAP)
    elif looks > SPINS:
        _yield()


@inner
def _do_blocks(calls: Any, b: int, blocks: int, worker: int, board: Any, ticket: int) -> int:
    """Sweep over the blocks that no thread has taken, those of the worker first; return how many there were."""
    number, k, done = ticket >> 16, ticket & 0xFFFF, 0
    for i in range(blocks):
        block = (worker * BLOCKS_A_THREAD + i) % blocks
        if _take(board, TAKEN + LINE * block, number):
            _call(calls[k, 0], b, block, blocks, worker, calls[k, 1])
            _increment(board, FINISHED)
            done += 1
    return done


def empty_board(blocks: int) -> NDArray[np.int64]:
    """Return a board for sweeps of ``blocks`` blocks."""
    return np.zeros(TAKEN + LINE * blocks, np.int64)


class Loop:
    """A compiled function of integers and addresses, which Python calls without holding its lock."""

    def __init__(self, function: Callable[..., int]) -> None:
        functools.update_wrapper(self, function)
        self.need = Need(self.__module__, function.__name__)

    def __call__(self, *arguments: int) -> int:
        """Run the compiled function."""
        return int(self._compiled(*arguments))

    @functools.cached_property
    def _compiled(self) -> Any:
        numbers = [ctypes.c_int64] * self.__wrapped__.__code__.co_argcount  # type: ignore[attr-defined]
        return ctypes.CFUNCTYPE(ctypes.c_int64, *numbers)(address(self.need))

    def entry(self, kinds: tuple[types.Type, ...]) -> tuple[Callable[..., int], Any]:
        """Return the function to compile, and its signature."""
        function: Any = self.__wrapped__  # type: ignore[attr-defined]
        names = function.__code__.co_varnames[: function.__code__.co_argcount]
        pointers = {
            "calls": types.CPointer(types.int64),
            "running": types.CPointer(types.uint8),
            "board": types.CPointer(types.int64),
        }
        return function, types.int64(*[pointers.get(name, types.int64) for name in names])


@Loop
def run(calls: Any, count: int, b: int, worker: int, most: int, running: Any) -> int:
    """Take a simulation through at most ``most`` steps, while its flag is set; return how many."""
    table, flag = carray(calls, (count, 3)), carray(running, 1)
    steps = 0
    while steps < most and flag[0]:
        for k in range(count):
            _call(table[k, 0], b, 0, 1, worker, table[k, 1])
        steps += 1
    return steps


@Loop
def lead(calls: Any, count: int, b: int, blocks: int, most: int, running: Any, board: Any) -> int:
    """Do what :func:`run` does as worker 0, with assistants; the board must be empty, and is closed at the end."""
    table, flag = carray(calls, (count, 3)), carray(running, 1)
    steps, sweeps = 0, 0
    while steps < most and flag[0]:
        for k in range(count):
            if table[k, 2] == 0:
                _call(table[k, 0], b, 0, blocks, 0, table[k, 1])
                continue
            sweeps += 1
            ticket = (sweeps << 16) | k
            _store(board, FINISHED, 0)
            _store(board, TICKET, ticket)
            _do_blocks(table, b, blocks, 0, board, ticket)
            looks = 0
            while _load(board, FINISHED) < blocks:
                looks += 1
                _wait(looks)
        steps += 1
    _store(board, TICKET, CLOSED)
    return steps


@Loop
def assist(calls: Any, count: int, b: int, blocks: int, worker: int, board: Any) -> int:
    """Process blocks from the board until it is closed; return how many."""
    table = carray(calls, (count, 3))
    done, looks, seen = 0, 0, 0
    ticket = _load(board, TICKET)
    while ticket < CLOSED:
        if ticket == seen:
            looks += 1
            _wait(looks)
        else:
            done, looks, seen = (
                done + _do_blocks(table, b, blocks, worker, board, ticket),
                0,
                ticket,
            )
        ticket = _load(board, TICKET)
    return done


LOOPS = (run, lead, assist)
