"""The transform along y: an FFT of 32 rows at a time, two of them in the real and imaginary part of every lane.

Rows 2 l and 2 l + 1 of a simulation make up one complex sequence v. Its FFT V separates into those of the two rows, and
between modes k and n - k of either the same rotation by an angle theta_k gives the real modes C::

    C_k = Re(exp(-i theta_k) A_k),    C_(n-k) = -Im(exp(-i theta_k) A_k),    k = 1 ... n/2 - 1

With theta_k = pi k / 2n, and the row's even entries followed by its odd ones in reverse order, these are the cosine
modes of a row between walls (Makhoul 1980), and, if every odd entry changes its sign before, the sine modes of a row
between open sides, in reverse order; with theta_k = 0 and the row as it is, they are the Fourier modes of a periodic
row. The round-off error of a row depends on its partner, which is always the same, but on nothing else: neither on the
lane nor on the block.

The FFT works in place, so that the buffer of 256 entries per row fits the first-level cache: radix 4, 2, and any odd
prime p at a cost of p/2 operations per entry (a length with a large prime factor is slow).
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from flowsim.backend.cpu.compiling import inner
from flowsim.backend.cpu.lanes import (
    LANES,
    lanes_to_rows,
    load,
    load_number,
    rows_to_lanes,
    store,
    store_number,
)

Array = Any

ROWS = 2 * LANES
"""Rows that are transformed together."""


class TransformTables(NamedTuple):
    """Tables for the transform of rows of length n.

    A buffer holds 2 (n + p) vectors, p being the largest radix: the real and the imaginary part of the entries one
    after the other, then scratch memory. Tables of places hold numbers of vectors and are as long as the padded row,
    whose padding is placed in the scratch memory.

    Attributes
    ----------
    radices : (stages,) int64
    cosines, sines : (n - 1 + ...,)
        Twiddle factors exp(-i angle) of every stage, followed by the roots of unity of an odd radix.
    entry_in, entry_out : (2, padded)
        Where entry j of the two rows is put before the forward FFT, and is found after the backward one.
    mode_in, mode_out : (2, padded)
        Where mode k is put before the backward FFT, and is found after the forward one.
    turn_cosines, turn_sines : (n // 2 + 1,)
        cos and sin of theta_k.
    held : bool
        Whether odd entries change their sign, which turns cosine modes into sine modes.
    """

    radices: NDArray[np.int64]
    cosines: NDArray[np.floating]
    sines: NDArray[np.floating]
    entry_in: NDArray[np.int64]
    entry_out: NDArray[np.int64]
    mode_in: NDArray[np.int64]
    mode_out: NDArray[np.int64]
    turn_cosines: NDArray[np.floating]
    turn_sines: NDArray[np.floating]
    held: bool

    @classmethod
    def build(cls, n: int, periodic: bool, held: bool, dtype: np.dtype) -> TransformTables:
        """Compute the tables in float64 and store them in ``dtype``."""
        radices = _factors(n)
        angles = []
        span = 1
        for radix in radices:
            angles.append(
                2
                * np.pi
                * (np.outer(np.arange(span), np.arange(1, radix)) / (radix * span)).ravel()
            )
            if radix % 2:
                angles.append(2 * np.pi * np.arange(radix) / radix)
            span *= radix
        twiddles = np.concatenate(angles)
        theta = np.zeros(n // 2 + 1) if periodic else np.pi * np.arange(n // 2 + 1) / (2 * n)
        j = np.arange(n)
        entry = j if periodic else np.where(j % 2 == 0, j // 2, n - 1 - j // 2)
        place = np.argsort(_digit_reversed(j, radices))
        return cls(
            radices=np.array(radices, np.int64),
            cosines=np.cos(twiddles).astype(dtype),
            sines=np.sin(twiddles).astype(dtype),
            entry_in=_places(place[entry]),
            # an inverse FFT is a forward one with real and imaginary part exchanged before and after it
            entry_out=_places(entry)[::-1].copy(),
            mode_in=_places(place)[::-1].copy(),
            mode_out=_places(j),
            turn_cosines=np.cos(theta).astype(dtype),
            turn_sines=np.sin(theta).astype(dtype),
            held=held,
        )


def buffer_size(n: int) -> int:
    """Return how many numbers a buffer for rows of length n holds."""
    return 2 * (n + max(*_factors(n), 4)) * LANES


def _factors(n: int) -> list[int]:
    factors = []
    for radix in (4, 2, *range(3, n + 1, 2)):
        while n % radix == 0:
            factors.append(radix)
            n //= radix
    return factors


def _digit_reversed(entries: NDArray[np.int64], radices: list[int]) -> NDArray[np.int64]:
    """Return the entries in the order in which an FFT of these stages takes them."""
    if not radices:
        return entries
    radix = radices[-1]
    return np.concatenate([_digit_reversed(entries[t::radix], radices[:-1]) for t in range(radix)])


def _places(entries: NDArray[np.int64]) -> NDArray[np.int64]:
    n = len(entries)
    whole = np.full(-(-n // LANES) * LANES, n, np.int64)
    whole[:n] = entries
    return np.stack([2 * whole, 2 * whole + 1])


@inner
def _radix_2(x: Array, n: int, span: int, cosines: Array, sines: Array, first: int) -> None:
    for p in range(span):
        c, s = cosines[first + p], sines[first + p]
        for block in range(p, n, 2 * span):
            i = 2 * LANES * block
            j = i + 2 * LANES * span
            ar, ai = load(x, i), load(x, i + LANES)
            br, bi = load(x, j), load(x, j + LANES)
            br, bi = c * br + s * bi, c * bi - s * br
            store(x, i, ar + br)
            store(x, i + LANES, ai + bi)
            store(x, j, ar - br)
            store(x, j + LANES, ai - bi)


@inner
def _radix_4(x: Array, n: int, span: int, cosines: Array, sines: Array, first: int) -> None:
    step = 2 * LANES * span
    for p in range(span):
        t = first + 3 * p
        c1, c2, c3 = cosines[t], cosines[t + 1], cosines[t + 2]
        s1, s2, s3 = sines[t], sines[t + 1], sines[t + 2]
        for block in range(p, n, 4 * span):
            i = 2 * LANES * block
            ar, ai = load(x, i), load(x, i + LANES)
            br, bi = load(x, i + step), load(x, i + step + LANES)
            cr, ci = load(x, i + 2 * step), load(x, i + 2 * step + LANES)
            dr, di = load(x, i + 3 * step), load(x, i + 3 * step + LANES)
            br, bi = c1 * br + s1 * bi, c1 * bi - s1 * br
            cr, ci = c2 * cr + s2 * ci, c2 * ci - s2 * cr
            dr, di = c3 * dr + s3 * di, c3 * di - s3 * dr
            er, ei, fr, fi = ar + cr, ai + ci, ar - cr, ai - ci
            gr, gi, hr, hi = br + dr, bi + di, br - dr, bi - di
            store(x, i, er + gr)
            store(x, i + LANES, ei + gi)
            store(x, i + step, fr + hi)
            store(x, i + step + LANES, fi - hr)
            store(x, i + 2 * step, er - gr)
            store(x, i + 2 * step + LANES, ei - gi)
            store(x, i + 3 * step, fr - hi)
            store(x, i + 3 * step + LANES, fi + hr)


@inner
def _odd_radix(
    x: Array, n: int, radix: int, span: int, cosines: Array, sines: Array, first: int
) -> None:
    roots = first + (radix - 1) * span
    step, scratch = 2 * LANES * span, 2 * LANES * n
    half = (radix - 1) // 2
    for p in range(span):
        for block in range(p, n, radix * span):
            i = 2 * LANES * block
            zr, zi = load(x, i), load(x, i + LANES)
            totalr, totali = zr, zi
            # sums and differences of the inputs t and radix - t, which share a cosine and, up to its sign, a sine
            for t in range(1, half + 1):
                e = first + (radix - 1) * p + t - 1
                at = i + t * step
                ar, ai = load(x, at), load(x, at + LANES)
                ar, ai = cosines[e] * ar + sines[e] * ai, cosines[e] * ai - sines[e] * ar
                e += radix - 2 * t
                at = i + (radix - t) * step
                br, bi = load(x, at), load(x, at + LANES)
                br, bi = cosines[e] * br + sines[e] * bi, cosines[e] * bi - sines[e] * br
                sr, si = ar + br, ai + bi
                to = scratch + 4 * LANES * (t - 1)
                store(x, to, sr)
                store(x, to + LANES, si)
                store(x, to + 2 * LANES, ar - br)
                store(x, to + 3 * LANES, ai - bi)
                totalr, totali = totalr + sr, totali + si
            store(x, i, totalr)
            store(x, i + LANES, totali)
            for k in range(1, half + 1):
                evenr, eveni = zr, zi
                oddr, oddi = zr - zr, zi - zi
                for t in range(1, half + 1):
                    c, s = cosines[roots + k * t % radix], sines[roots + k * t % radix]
                    at = scratch + 4 * LANES * (t - 1)
                    evenr, eveni = evenr + c * load(x, at), eveni + c * load(x, at + LANES)
                    oddr, oddi = (
                        oddr + s * load(x, at + 2 * LANES),
                        oddi + s * load(x, at + 3 * LANES),
                    )
                at = i + k * step
                store(x, at, evenr + oddi)
                store(x, at + LANES, eveni - oddr)
                at = i + (radix - k) * step
                store(x, at, evenr - oddi)
                store(x, at + LANES, eveni + oddr)


@inner
def _fft(x: Array, n: int, radices: Array, cosines: Array, sines: Array) -> None:
    """Transform the buffer in place, from digit-reversed to natural order."""
    span, first = 1, 0
    for stage in range(len(radices)):
        radix = radices[stage]
        if radix == 4:
            _radix_4(x, n, span, cosines, sines, first)
        elif radix == 2:
            _radix_2(x, n, span, cosines, sines, first)
        else:
            _odd_radix(x, n, radix, span, cosines, sines, first)
            first += radix
        first += (radix - 1) * span
        span *= radix


@inner
def _separate(x: Array, n: int, cosines: Array, sines: Array) -> None:
    """Compute the modes of each of the two rows from the FFT of both."""
    half = x.dtype.type(0.5)
    for k in range(1, n // 2):
        c, s = half * cosines[k], half * sines[k]
        i, j = 2 * LANES * k, 2 * LANES * (n - k)
        pr, pi, qr, qi = load(x, i), load(x, i + LANES), load(x, j), load(x, j + LANES)
        ar, ai, br, bi = pr + qr, pi - qi, pi + qi, qr - pr
        store(x, i, c * ar + s * ai)
        store(x, i + LANES, c * br + s * bi)
        store(x, j, s * ar - c * ai)
        store(x, j + LANES, s * br - c * bi)
    i = LANES * n
    store(x, i, cosines[n // 2] * load(x, i))
    store(x, i + LANES, cosines[n // 2] * load(x, i + LANES))


@inner
def _join(x: Array, n: int, cosines: Array, sines: Array, places: Array) -> None:
    """Undo :func:`_separate` for the backward FFT, up to the factor n: parts exchanged, at the places of the modes."""
    scale = x.dtype.type(1.0 / n)
    i, j = LANES * places[0, 0], LANES * places[1, 0]
    store(x, i, scale * load(x, i))
    store(x, j, scale * load(x, j))
    for k in range(1, n // 2):
        c, s = scale * cosines[k], scale * sines[k]
        # the second row's part is the real one here, because the parts are exchanged
        i, i2 = LANES * places[0, k], LANES * places[1, k]
        j, j2 = LANES * places[0, n - k], LANES * places[1, n - k]
        ak, bk, am, bm = load(x, i), load(x, i2), load(x, j), load(x, j2)
        ar, ai = c * ak + s * am, s * ak - c * am
        br, bi = c * bk + s * bm, s * bk - c * bm
        store(x, i, ar - bi)
        store(x, i2, ai + br)
        store(x, j, ar + bi)
        store(x, j2, br - ai)
    middle = scale * (cosines[n // 2] + sines[n // 2])
    i, j = LANES * places[0, n // 2], LANES * places[1, n // 2]
    store(x, i, middle * load(x, i))
    store(x, j, middle * load(x, j))


@inner
def _read_rows(
    source: Array, offset: int, pitch: int, pairs: int, n: int, whole: int, x: Array, places: Array
) -> None:
    """Distribute the first ``pairs`` pairs of rows over the lanes, repeating the last one to fill them."""
    size = places.shape[1]
    for part in range(2):
        row = offset + part * pitch
        for j in range(0, whole, LANES):
            rows_to_lanes(source, row + j, 2 * pitch, pairs - 1, x, places, part * size + j)
        for j in range(whole, n):
            for lane in range(LANES):
                x[LANES * places[part, j] + lane] = load_number(
                    source, row + 2 * pitch * min(lane, pairs - 1) + j
                )


@inner
def _write_rows(
    x: Array, places: Array, target: Array, offset: int, pitch: int, pairs: int, n: int, whole: int
) -> None:
    """Undo :func:`_read_rows`."""
    size = places.shape[1]
    for part in range(2):
        row = offset + part * pitch
        for j in range(0, whole, LANES):
            lanes_to_rows(x, places, part * size + j, target, row + j, 2 * pitch, pairs - 1)
        for j in range(whole, n):
            for lane in range(pairs):
                store_number(target, row + 2 * pitch * lane + j, x[LANES * places[part, j] + lane])


@inner
def _turn_odd_entries(x: Array, n: int, places: Array) -> None:
    """Change the sign of the odd entries of both rows."""
    minus = x.dtype.type(-1.0)
    for part in range(2):
        for j in range(1, n, 2):
            i = LANES * places[part, j]
            store(x, i, minus * load(x, i))


@inner
def change_rows(
    source: Array,
    target: Array,
    b: int,
    start: int,
    stop: int,
    x: Array,
    tables: TransformTables,
    backward: bool,
) -> None:
    """Transform rows [start, stop), both even, of simulation b to modes, or with ``backward`` modes to rows.

    ``source`` and ``target`` (B, nx, ny or more) are the rows and their modes, or the other way round; ``x`` is a
    buffer. Rows of modes are padded, and their entries beyond ny are arbitrary. Both directions are one function
    because most of it is the same, and compiling it twice would take twice as long.
    """
    nx, n = source.shape[1], min(source.shape[2], target.shape[2])
    read, written = source.shape[2], target.shape[2]
    places_in = tables.mode_in if backward else tables.entry_in
    places_out = tables.entry_out if backward else tables.mode_out
    # rows of modes are whole vectors, padding included
    padded, vectors = places_in.shape[1], n // LANES * LANES
    whole_in, whole_out = (padded, vectors) if backward else (vectors, padded)
    for i in range(start, stop, ROWS):
        pairs = min(LANES, (stop - i) // 2)
        _read_rows(source, (b * nx + i) * read, read, pairs, n, whole_in, x, places_in)
        if backward:
            _join(x, n, tables.turn_cosines, tables.turn_sines, places_in)
        elif tables.held:
            _turn_odd_entries(x, n, places_in)
        _fft(x, n, tables.radices, tables.cosines, tables.sines)
        if not backward:
            _separate(x, n, tables.turn_cosines, tables.turn_sines)
        elif tables.held:
            _turn_odd_entries(x, n, places_out)
        _write_rows(x, places_out, target, (b * nx + i) * written, written, pairs, n, whole_out)
