"""Spectra of time series, and the frequency of their strongest oscillation.

Step sizes vary, so series are first interpolated to equal steps by a cubic spline. Spectra use a window (Hann by
default), without which an oscillation leaks into all frequencies. The peak is located between the discrete frequencies
by a parabola through the logarithms of the largest value and its two neighbours.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.interpolate import CubicSpline

from flowsim.backend.host.given import is_positive, is_whole

FloatArray = NDArray[np.float64]

FEWEST_PERIODS = 2.0
"""Smallest number of periods in a series whose frequency is computed."""
PADDING = 4
"""Zero padding: number of frequencies in a spectrum for each that the series can resolve."""


def equal_steps(
    time: ArrayLike, values: ArrayLike, step: float | None = None
) -> tuple[FloatArray, FloatArray]:
    """Interpolate a series to equal steps by a cubic spline.

    Parameters
    ----------
    time, values : (n,)
        Increasing times, and values; entries that are not finite are left out.
    step : float, optional
        Size of the equal steps; the mean step of the series unless given.

    Returns
    -------
    time, values : (m,)

    Raises
    ------
    ValueError
        For fewer than four entries, times that do not increase, or steps that are not positive.
    """
    t, x = np.asarray(time, np.float64), np.asarray(values, np.float64)
    if t.ndim != 1 or t.shape != x.shape:
        raise ValueError(
            f"times of shape {t.shape} and values of shape {x.shape}: both must be (n,)"
        )
    known = np.isfinite(t) & np.isfinite(x)
    t, x = t[known], x[known]
    if len(t) < 4:
        raise ValueError(f"the series has {len(t)} values, but must have at least 4")
    if not (np.diff(t) > 0).all():
        raise ValueError("the times of the series must grow from each to the next")
    if step is not None and not is_positive(step):
        raise ValueError(f"step = {step!r}: the size of the steps must be positive")
    count = len(t) if step is None else int((t[-1] - t[0]) / step + 1e-9) + 1
    last = t[-1] if step is None else t[0] + (count - 1) * step
    even = np.linspace(t[0], last, count)
    return even, np.asarray(CubicSpline(t, x)(even), np.float64)


def power_spectrum(
    time: ArrayLike, values: ArrayLike, *, segments: int = 1, window: str = "hann"
) -> tuple[FloatArray, FloatArray]:
    """Return the power spectral density of the fluctuations of a series, by Welch's method.

    Parameters
    ----------
    time, values : (n,)
        Times and values of the series; steps may vary.
    segments : int
        Number of segments, overlapping by half, whose spectra are averaged: more segments give a smoother spectrum with
        a lower frequency resolution.
    window : str
        Name of a window of :func:`scipy.signal.get_window`.

    Returns
    -------
    frequency : (m,)
        Frequencies, in units of U/D.
    power : (m,)
        Power spectral density; its integral over the frequency is the variance of the series.

    Raises
    ------
    ValueError
        As for :func:`equal_steps`, or for too many segments for the length of the series.
    """
    from scipy import signal  # takes half a second, so it is not imported with flowsim

    even, x = equal_steps(time, values)
    fine = is_whole(segments) and segments > 0
    length = 2 * len(even) // (segments + 1) if fine else 0
    if length < 4:
        raise ValueError(
            f"segments = {segments!r}: {len(even)} values cannot be divided into so many"
        )
    frequency, power = signal.welch(
        x - x.mean(),
        fs=1.0 / (even[1] - even[0]),
        window=window,
        nperseg=length,
        nfft=PADDING * length,
        detrend="constant",
    )
    return np.asarray(frequency), np.asarray(power)


def dominant_frequency(time: ArrayLike, values: ArrayLike, *, window: str = "hann") -> float:
    """Return the frequency of the strongest oscillation of a series, in units of U/D.

    Raises
    ------
    ValueError
        As for :func:`power_spectrum`, or for a series that is constant or contains fewer than two periods.
    """
    t, x = (np.asarray(series, np.float64) for series in (time, values))
    frequency, power = power_spectrum(t, x, window=window)
    known = np.isfinite(t) & np.isfinite(x)
    t, x = t[known], x[known]
    if np.ptp(x) <= 1e-12 * max(1.0, float(np.abs(x).max())):
        raise ValueError("the series is constant and has no frequency")
    at = int(power[1:-1].argmax()) + 1
    low, peak, high = np.log(np.maximum(power[at - 1 : at + 2], 1e-300))
    shift = 0.5 * (low - high) / (low - 2 * peak + high)
    found = float((at + np.clip(shift, -1.0, 1.0)) * frequency[1])
    duration = float(t[-1] - t[0])
    if found * duration < FEWEST_PERIODS:
        raise ValueError(
            f"the series of {duration:.3g} D/U holds {found * duration:.2g} periods of its strongest oscillation, but "
            f"needs at least {FEWEST_PERIODS:g}"
        )
    return found


def strouhal_number(
    time: ArrayLike, lift: ArrayLike, *, length: float = 1.0, speed: float = 1.0
) -> float:
    """Return the Strouhal number f D / U of the strongest oscillation of a force; its frequency for D = U = 1.

    Raises
    ------
    ValueError
        As for :func:`dominant_frequency`, and for a length or speed that is not positive.
    """
    for name, scale in (("length", length), ("speed", speed)):
        if not is_positive(scale):
            raise ValueError(f"{name} = {scale!r}: it must be positive")
    return dominant_frequency(time, lift) * length / speed
