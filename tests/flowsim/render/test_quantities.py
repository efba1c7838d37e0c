"""Quantities shown in pictures, against exact values."""

import dataclasses

import numpy as np
import pytest

from flowsim import Grid, Sides, Simulation
from flowsim.render.quantities import PRESSURE, QUANTITIES, SPEED, VORTICITY, choose


@pytest.fixture
def vortices():
    """Taylor-Green vortices of two strengths, after a step, and their phases at the cell centres."""
    n, k = 64, 2.0 * np.pi
    sim = Simulation(
        Grid(n, n, 1 / n), Sides.all("periodic"), viscosity=1e-4, batch=2, stream=(0.0, 0.0)
    )
    for b, strength in enumerate((1.0, 2.0)):
        x, y = (k * faces for faces in sim.grid.u_faces())
        u = strength * np.sin(x) * np.cos(y)
        x, y = (k * faces for faces in sim.grid.v_faces())
        sim.set_velocity(b, u, -strength * np.cos(x) * np.sin(y))
    sim.advance(0.05)
    centres = k * (np.arange(n) + 0.5) / n
    return sim, centres[:, None], centres[None, :], k


@pytest.mark.parametrize("b", [0, 1])
def test_fields_of_taylor_green(vortices, b):
    """Exact: omega = 2 k U sin sin, p = U^2 / 4 (cos 2kx + cos 2ky), up to a constant."""
    sim, x, y, k = vortices
    strength = (1.0, 2.0)[b]
    decay = np.exp(-2e-4 * k * k * 0.05)
    np.testing.assert_allclose(
        VORTICITY.of(sim, b),
        2 * k * strength * decay * np.sin(x) * np.sin(y),
        atol=0.02 * k * strength,
    )
    speed = strength * np.hypot(np.sin(x) * np.cos(y), np.cos(x) * np.sin(y))
    np.testing.assert_allclose(SPEED.of(sim, b), speed, atol=0.02 * strength)
    pressure = 0.25 * strength**2 * (np.cos(2 * x) + np.cos(2 * y))
    np.testing.assert_allclose(PRESSURE.of(sim, b), pressure, atol=0.02 * strength**2)
    np.testing.assert_array_equal(VORTICITY.of(sim, b), sim.vorticity()[b])


@pytest.mark.parametrize("name", QUANTITIES)
def test_zero_is_white_and_values_beyond_the_range_saturate(name):
    quantity = QUANTITIES[name]
    table, low = quantity.table(), -quantity.limit if quantity.signed else 0.0
    assert (table[quantity.places(np.array([0.0, np.nan]))] == 255).all()
    ends = quantity.places(np.array([low, quantity.limit, 1e9, np.inf, -np.inf]))
    assert ends.tolist() == [0, len(table) - 1, len(table) - 1, len(table) - 1, 0]
    assert table[-1].sum() < 300


def test_fields_and_ranges_are_parsed():
    assert [(q.name, q.limit) for q in choose("speed,vorticity", "speed=1.5")] == [
        ("speed", 1.5),
        ("vorticity", 8.0),
    ]
    assert choose("pressure", "3")[0].limit == 3.0


@pytest.mark.parametrize(
    ("names", "ranges", "words"),
    [
        ("vortex", None, "fields is 'vortex', but must be some of vorticity, speed, pressure"),
        ("speed,speed", None, "each once"),
        ("speed", "0", "positive number"),
        ("speed", "inf", "positive number"),
        ("speed", "vorticity=3", "of what is shown"),
        ("speed", "two", "such as speed=4"),
        (["speed"], None, r"fields is \['speed'\], but must be text"),
        ("speed", 3.0, "range is 3.0, but must be text"),
    ],
)
def test_invalid_fields_and_ranges_are_refused(names, ranges, words):
    with pytest.raises(ValueError, match=words):
        choose(names, ranges)


def test_unknown_colours_are_refused():
    with pytest.raises(ValueError, match="colours = 'rainbow': they are one of thermal, haline"):
        dataclasses.replace(VORTICITY, colours="rainbow").table()
