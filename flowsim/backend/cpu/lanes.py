"""Vectors of LANES numbers inside compiled code: the same operation on 16 rows or columns at once.

LLVM does not vectorize loops that read and write as many places as the butterflies of an FFT do, because it cannot
prove that these do not overlap. Here the vectors are a type of their own, so that no proof is needed. Every operation
acts on each lane separately: the result of a lane depends neither on its index nor on the other lanes.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import extending
from numba.core import types
from numba.core.typing.templates import AbstractTemplate, infer_global, signature
from numba.extending import lower_builtin, models, register_model

LANES = 16
"""Numbers in a vector: one AVX-512 register of float32, several registers on smaller machines."""

# Any, because what it returns is called without the typing context
intrinsic: Any = extending.intrinsic


class Lanes(types.Type):
    """LANES numbers of one floating-point type."""

    def __init__(self, scalar: types.Float) -> None:
        self.scalar = scalar
        super().__init__(name=f"Lanes({scalar})")


@register_model(Lanes)
class _LanesModel(models.PrimitiveModel):
    def __init__(self, manager: Any, kind: Lanes) -> None:
        number = manager.lookup(kind.scalar).get_value_type()
        super().__init__(manager, kind, ir.VectorType(number, LANES))


def _mask(elements: list[int]) -> ir.Constant:
    return ir.Constant(ir.VectorType(ir.IntType(32), len(elements)), elements)


def _spread(builder: Any, kind: types.Type, value: Any) -> Any:
    """Return ``value`` as a vector; a number is broadcast."""
    if isinstance(kind, Lanes):
        return value
    empty = ir.Constant(ir.VectorType(value.type, LANES), ir.Undefined)
    first = builder.insert_element(empty, value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(first, empty, _mask([0] * LANES))


def _define(operation: Any, instruction: str) -> None:
    """Let ``operation`` work between vectors, and between a number and a vector of its type."""

    @infer_global(operation)
    class _Typing(AbstractTemplate):
        def generic(self, args: tuple[Any, ...], kws: dict[str, Any]) -> Any:
            vectors = [a for a in args if isinstance(a, Lanes)]
            if len(args) != 2 or kws or not vectors:
                return None
            vector = vectors[0]
            return (
                signature(vector, *args)
                if all(a in (vector, vector.scalar) for a in args)
                else None
            )

    def lower(context: Any, builder: Any, sig: Any, args: tuple[Any, Any]) -> Any:
        a, b = (_spread(builder, kind, value) for kind, value in zip(sig.args, args, strict=True))
        return getattr(builder, instruction)(a, b)

    for pair in ((Lanes, Lanes), (types.Float, Lanes), (Lanes, types.Float)):
        lower_builtin(operation, *pair)(lower)


_define(operator.add, "fadd")
_define(operator.sub, "fsub")
_define(operator.mul, "fmul")


def _pointer(context: Any, builder: Any, kind: Any, array: Any, offset: Any) -> Any:
    data = context.make_array(kind)(context, builder, array).data
    return builder.gep(data, [offset])


def _load(builder: Any, pointer: Any) -> Any:
    number = pointer.type.pointee
    vector = builder.bitcast(pointer, ir.VectorType(number, LANES).as_pointer())
    return builder.load(vector, align=4 if isinstance(number, ir.FloatType) else 8)


def _store(builder: Any, vector: Any, pointer: Any) -> None:
    number = pointer.type.pointee
    place = builder.bitcast(pointer, ir.VectorType(number, LANES).as_pointer())
    builder.store(vector, place, align=4 if isinstance(number, ir.FloatType) else 8)


@intrinsic
def load(typing_context: Any, array: Any, offset: Any) -> Any:
    """Return the vector that starts at an offset, in entries, into a contiguous array."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return _load(builder, _pointer(context, builder, sig.args[0], args[0], args[1]))

    return Lanes(array.dtype)(array, types.intp), generate


@intrinsic
def store(typing_context: Any, array: Any, offset: Any, vector: Any) -> Any:
    """Write a vector at an offset, in entries, into a contiguous array."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        _store(builder, args[2], _pointer(context, builder, sig.args[0], args[0], args[1]))
        return context.get_dummy_value()

    return types.none(array, types.intp, vector), generate


@intrinsic
def load_number(typing_context: Any, array: Any, offset: Any) -> Any:
    """Return the number at an offset, in entries, into a contiguous array of any shape."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        return builder.load(_pointer(context, builder, sig.args[0], args[0], args[1]))

    return array.dtype(array, types.intp), generate


@intrinsic
def store_number(typing_context: Any, array: Any, offset: Any, number: Any) -> Any:
    """Write a number at an offset, in entries, into a contiguous array of any shape."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        builder.store(args[2], _pointer(context, builder, sig.args[0], args[0], args[1]))
        return context.get_dummy_value()

    return types.none(array, types.intp, array.dtype), generate


def _transposed(builder: Any, rows: list[Any]) -> list[Any]:
    """Transpose LANES vectors by exchanging halves, then halves of halves, and so on."""
    rows = list(rows)
    half = LANES // 2
    while half:
        first = _mask([e if not e & half else LANES + e - half for e in range(LANES)])
        second = _mask([e + half if not e & half else LANES + e for e in range(LANES)])
        for i in range(LANES):
            if not i & half:
                a, b = rows[i], rows[i + half]
                rows[i] = builder.shuffle_vector(a, b, first)
                rows[i + half] = builder.shuffle_vector(a, b, second)
        half //= 2
    return rows


def _row_pointers(
    context: Any, builder: Any, kind: Any, array: Any, offset: Any, pitch: Any, last: Any
) -> list[Any]:
    pointers = []
    for lane in range(LANES):
        number = ir.Constant(pitch.type, lane)
        row = builder.select(builder.icmp_signed("<", number, last), number, last)
        pointers.append(
            _pointer(context, builder, kind, array, builder.add(offset, builder.mul(row, pitch)))
        )
    return pointers


def _vector_pointers(
    context: Any, builder: Any, kinds: Any, buffer: Any, table: Any, first: Any
) -> list[Any]:
    pointers = []
    for k in range(LANES):
        entry = builder.add(first, ir.Constant(first.type, k))
        place = builder.load(_pointer(context, builder, kinds[1], table, entry))
        offset = builder.mul(place, ir.Constant(place.type, LANES))
        pointers.append(_pointer(context, builder, kinds[0], buffer, offset))
    return pointers


@intrinsic
def rows_to_lanes(
    typing_context: Any,
    source: Any,
    offset: Any,
    pitch: Any,
    last: Any,
    buffer: Any,
    table: Any,
    first: Any,
) -> Any:
    """Turn LANES entries of LANES rows into LANES vectors of the same entry of every row.

    Row l starts ``pitch`` entries after row l - 1, the first at ``offset`` in ``source``; rows after row ``last``
    repeat it. Vector k is number ``table[first + k]`` of ``buffer``.
    """

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        a, kinds = args, sig.args
        rows = [_load(builder, p) for p in _row_pointers(context, builder, kinds[0], *a[:4])]
        places = _vector_pointers(context, builder, kinds[4:6], *a[4:])
        for vector, place in zip(_transposed(builder, rows), places, strict=True):
            _store(builder, vector, place)
        return context.get_dummy_value()

    whole = types.intp
    return types.none(source, whole, whole, whole, buffer, table, whole), generate


@intrinsic
def lanes_to_rows(
    typing_context: Any,
    buffer: Any,
    table: Any,
    first: Any,
    target: Any,
    offset: Any,
    pitch: Any,
    last: Any,
) -> Any:
    """Undo :func:`rows_to_lanes`; lanes beyond number ``last`` must equal it."""

    def generate(context: Any, builder: Any, sig: Any, args: Any) -> Any:
        a, kinds = args, sig.args
        vectors = [_load(builder, p) for p in _vector_pointers(context, builder, kinds[:2], *a[:3])]
        places = _row_pointers(context, builder, kinds[3], *a[3:])
        for vector, place in zip(_transposed(builder, vectors), places, strict=True):
            _store(builder, vector, place)
        return context.get_dummy_value()

    whole = types.intp
    return types.none(buffer, table, whole, target, whole, whole, whole), generate
