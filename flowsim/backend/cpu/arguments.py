"""Packing of the arguments of compiled functions into 64-bit words, so that all functions have the same signature.

An array becomes its address, its shape and its strides; a tuple, named or not, the words of its members; a number one
word, and ``None`` nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
from llvmlite import ir
from numba import extending
from numba.core import types
from numba.np import arrayobj
from numpy.typing import NDArray

# Any, because what it returns is called without the typing context
intrinsic: Any = extending.intrinsic


def packed(arguments: tuple[Any, ...]) -> NDArray[np.int64]:
    """Return the words of arguments; the caller must keep the arrays alive."""
    return np.array(list(_words(arguments)), np.int64)


def _words(argument: Any) -> Iterator[int]:
    if isinstance(argument, np.ndarray):
        yield argument.ctypes.data
        yield from argument.shape
        yield from argument.strides
    elif isinstance(argument, tuple):
        for member in argument:
            yield from _words(member)
    elif isinstance(argument, (float, np.floating)):
        yield struct.unpack("q", struct.pack("d", argument))[0]
    elif argument is not None:
        yield int(argument)


def unpacking(kinds: tuple[types.Type, ...]) -> Callable[[Any], tuple[Any, ...]]:
    """Return a function for compiled code that gets arguments of these types back from the address of their words."""

    @intrinsic
    def unpacked(typing_context: Any, address: Any) -> Any:
        def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
            start = builder.bitcast(args[0], ir.IntType(64).as_pointer())
            return _value(context, builder, sig.return_type, _loaded(builder, start))

        return types.Tuple(kinds)(address), generate

    return unpacked


def _loaded(builder: Any, start: Any) -> Iterator[Any]:
    """Load the words one after the other."""
    at = 0
    while True:
        yield builder.load(builder.gep(start, [ir.Constant(ir.IntType(64), at)]))
        at += 1


def _value(context: Any, builder: Any, kind: Any, words: Iterator[Any]) -> Any:
    if isinstance(kind, types.Array):
        array = context.make_array(kind)(context, builder)
        number = context.get_data_type(kind.dtype)
        arrayobj.populate_array(
            array,
            data=builder.inttoptr(next(words), number.as_pointer()),
            shape=[next(words) for _ in range(kind.ndim)],
            strides=[next(words) for _ in range(kind.ndim)],
            itemsize=context.get_constant(types.intp, context.get_abi_sizeof(number)),
            meminfo=None,
        )
        return array._getvalue()
    if isinstance(kind, types.BaseTuple):
        kinds: Any = kind
        members = [_value(context, builder, member, words) for member in kinds]
        return context.make_tuple(builder, kind, members)
    if isinstance(kind, types.NoneType):
        return context.get_dummy_value()
    word, real = next(words), context.get_value_type(kind)
    if isinstance(kind, types.Float):
        double = builder.bitcast(word, ir.DoubleType())
        return double if real == double.type else builder.fptrunc(double, real)
    return word if real == word.type else builder.trunc(word, real)
