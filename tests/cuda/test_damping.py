"""Selective frequency damping and small disturbances on the device, against the CPU."""

import numpy as np

from flowsim import (
    Grid,
    Sides,
    Simulation,
    Temperature,
    base_flow,
    leading_modes,
    nusselt_number,
    volume_nusselt_number,
)


def flow(backend: str, tiny: bool, warmer: float = 0.5) -> Simulation:
    """Return plates whose lower one has a warm spot, in a wind; without it, steady conduction between them."""
    n = 8 if tiny else 32
    spot = 1.0 + warmer * np.sin(np.pi * (np.arange(2 * n) + 0.5) / n)
    heat = Temperature(
        0.1,
        {"bottom": spot, "top": 0.0},
        buoyancy=(0, 1),
        initial=0.0 if warmer else lambda x, y: 1 - y,
    )
    sides = Sides("periodic", "periodic", "slip", "slip")
    return Simulation(Grid(2 * n, n, 1 / n), sides, viscosity=[0.1, 0.05], batch=2, temperature=heat,
                      dtype="float64", backend=backend)  # fmt: skip


def test_damped_flow_is_the_same(tiny: bool) -> None:
    found = []
    for backend in ("cpu", "cuda"):
        sim = flow(backend, tiny)
        base = base_flow(sim, filter_width=0.1, duration=0.1, tolerance=1e-9)
        sim.fill_ghosts()
        inside = slice(2, -2)
        fields = [sim.to_host(f)[:, inside, inside] for f in (sim.u, sim.v, sim.temperature)]
        found.append((base.change, *fields))
    for cpu, cuda in zip(*found, strict=True):
        np.testing.assert_allclose(cuda, cpu, rtol=0, atol=1e-10)


def test_modes_are_the_same(tiny: bool) -> None:
    """After two vectors, since both backends take the same steps."""
    found = [
        leading_modes(flow(backend, tiny, warmer=0.0), interval=0.05 if tiny else 0.5, vectors=2)
        for backend in ("cpu", "cuda")
    ]
    np.testing.assert_allclose(found[1].growth_rate, found[0].growth_rate, rtol=1e-5)
    np.testing.assert_allclose(found[1].error, found[0].error, rtol=1e-4)


def test_temperature_that_was_just_set_on_a_side_counts(tiny: bool) -> None:
    found = []
    for backend in ("cpu", "cuda"):
        sim = flow(backend, tiny)
        sim.set_side_temperature("bottom", 2.5)
        sim.diffusivity[:] = 0.2
        found.append([nusselt_number(sim, "bottom"), volume_nusselt_number(sim, "bottom")])
    np.testing.assert_allclose(*found, rtol=0, atol=1e-10)
