"""Loads and stores of pairs of adjacent numbers in a flat array, such as the complex numbers of a spectrum.

A GPU reads or writes two numbers by one instruction if it knows that they are aligned to the size of the pair; numba
does not know this of any array. The simulator reads them one by one.
"""

from __future__ import annotations

from typing import Any

from flowsim.backend.cuda.launching import SIMULATED

Array = Any

if SIMULATED:

    def load_pair(array: Array, at: Any) -> tuple[Any, Any]:
        """Return the numbers at the even index ``at`` and the next one."""
        return array[at], array[at + type(at)(1)]

    def store_pair(array: Array, at: Any, first: Any, second: Any) -> None:
        """Write numbers to the even index ``at`` and the next one."""
        array[at], array[at + type(at)(1)] = first, second

else:
    from llvmlite import ir
    from numba.core import types
    from numba.cuda.extending import intrinsic

    def _place(context: Any, builder: Any, kind: Any, array: Any, at: Any) -> tuple[Any, int]:
        """Return the pointer to a pair, and its size in bytes."""
        data = context.make_array(kind)(context, builder, array).data
        place = builder.gep(data, [at])
        vector = ir.VectorType(place.type.pointee, 2)
        return builder.bitcast(place, vector.as_pointer()), 2 * kind.dtype.bitwidth // 8

    @intrinsic
    def load_pair(typing: Any, array: Any, at: Any) -> Any:
        """Return the numbers at the even index ``at`` and the next one."""

        def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            place, size = _place(context, builder, signature.args[0], *given)
            pair = builder.load(place, align=size)
            parts = [builder.extract_element(pair, ir.Constant(ir.IntType(32), n)) for n in (0, 1)]
            return context.make_tuple(builder, signature.return_type, parts)

        return types.UniTuple(array.dtype, 2)(array, at), generate

    @intrinsic
    def store_pair(typing: Any, array: Any, at: Any, first: Any, second: Any) -> Any:
        """Write numbers to the even index ``at`` and the next one."""

        def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
            place, size = _place(context, builder, signature.args[0], *given[:2])
            pair = ir.Constant(place.type.pointee, ir.Undefined)
            for n in (0, 1):
                pair = builder.insert_element(pair, given[2 + n], ir.Constant(ir.IntType(32), n))
            builder.store(pair, place, align=size)
            return context.get_dummy_value()

        return types.void(array, at, array.dtype, array.dtype), generate
