"""Spectra of series whose frequencies and variances are known."""

import json
from pathlib import Path

import numpy as np
import pytest

from flowsim.measure.spectra import dominant_frequency, equal_steps, power_spectrum, strouhal_number

RESULTS = Path(__file__).parents[3] / "benchmarks" / "results"


def times(count: int = 700, seed: int = 0) -> np.ndarray:
    """Return steps that differ, as those of a simulation do."""
    return np.cumsum(np.random.default_rng(seed).uniform(0.02, 0.06, count))


@pytest.mark.parametrize("frequency", [0.1637, 0.2, 0.7213, 2.05])
def test_frequency_of_a_sine_is_interpolated_between_bins(frequency):
    t = times()
    lift = 0.1 + 0.3 * np.sin(2 * np.pi * frequency * t + 0.4) + 0.05 * np.sin(0.5 * np.pi * t)
    # some 28 D/U: frequencies that are 0.036 apart are told without interpolation
    assert strouhal_number(t, lift) == pytest.approx(frequency, abs=0.0015)
    assert strouhal_number(t, lift, length=2.0, speed=0.5) == pytest.approx(
        4 * frequency, abs=0.006
    )


def test_the_stronger_of_two_oscillations_is_found():
    t = times()
    values = np.sin(2 * np.pi * 0.5 * t) + 0.9 * np.sin(2 * np.pi * 1.3 * t)
    assert dominant_frequency(t, values) == pytest.approx(0.5, abs=0.002)


@pytest.mark.parametrize("segments", [1, 5])
def test_the_integral_of_a_spectrum_is_the_variance(segments):
    t = times(4000)
    values = 2.0 + np.sin(2 * np.pi * 0.8 * t) + 0.5 * np.cos(2 * np.pi * 2.3 * t)
    frequency, power = power_spectrum(t, values, segments=segments)
    assert power.sum() * frequency[1] == pytest.approx(0.5 + 0.125, rel=0.01)


def test_uneven_steps_are_interpolated_to_even_ones():
    t = times()
    even, values = equal_steps(t, np.sin(t), step=0.03)
    np.testing.assert_allclose(np.diff(even), 0.03, rtol=1e-9)
    np.testing.assert_allclose(values, np.sin(even), atol=2e-6)


def test_missing_entries_are_left_out():
    t = np.append(times(), [np.nan] * 5)
    assert dominant_frequency(t, np.sin(2 * np.pi * 0.7 * t)) == pytest.approx(0.7, abs=0.002)


@pytest.mark.parametrize(
    ("time", "values", "why"),
    [
        (np.arange(50.0), np.ones(50), "constant"),
        (np.arange(3.0), np.arange(3.0), "at least 4"),
        (np.zeros(50), np.arange(50.0), "must grow"),
        (np.arange(50.0), np.arange(40.0), r"\(50,\)"),
        (times(), np.sin(0.2 * times()), "periods of its strongest oscillation"),
    ],
)
def test_a_series_without_a_frequency_is_refused(time, values, why):
    with pytest.raises(ValueError, match=why):
        dominant_frequency(time, values)


@pytest.mark.parametrize(
    ("do", "why"),
    [
        (lambda t: equal_steps(t, t, step=0), "step = 0: the size of the steps must be positive"),
        (lambda t: equal_steps(t, t, step=-0.1), "step = -0.1"),
        (lambda t: power_spectrum(t, t, segments=2.5), "segments = 2.5"),
        (lambda t: strouhal_number(t, np.sin(3 * t), speed=0), "speed = 0: it must be positive"),
    ],
)
def test_numbers_that_are_not_positive_are_refused(do, why):
    with pytest.raises(ValueError, match=why):
        do(times())


def test_strouhal_number_of_a_wake_matches_its_zero_crossings():
    """The stored lift of the cylinder at Re 100 from `flowsim validate`, which counts its periods."""
    kept = json.loads((RESULTS / "validation" / "cylinder-100.json").read_text())
    (lift,) = (c for plot in kept["plots"] for c in plot["curves"] if c["label"] == "C_L")
    counted = next(row["value"] for row in kept["rows"] if row["quantity"] == "Strouhal number")
    time, values = np.array(lift["x"]), np.array(lift["y"])
    late = time > 0.6 * time[-1]
    assert strouhal_number(time[late], values[late]) == pytest.approx(counted, rel=0.005)
