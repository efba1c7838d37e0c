"""Batches on the device: active simulations, stopping, saving and restoring."""

import numpy as np
import pytest

from flowsim import Contact, Disk, Ellipse, Grid, Sides, Simulation
from flowsim.backend.host.arrays import memory_needed


def make(tiny: bool, batch: int = 2) -> Simulation:
    n = 1 if tiny else 4
    body = Ellipse(center=(1.5, 1.0), motion="free", aspect=0.5)
    return Simulation(Grid(12 * n, 8 * n, 0.25 / n), Sides(), [body], viscosity=0.02, batch=batch, dtype="float64",
                      backend="cuda")  # fmt: skip


def test_body_leaving_its_fence_stops_only_its_simulation(tiny: bool) -> None:
    sim = make(tiny)
    # outside from the beginning, noticed after the first step
    sim.fences[0, 0] = (0.0, 1.49, -9.0, 9.0)
    stopped = sim.advance(0.15)
    assert stopped.tolist() == [True, False]
    assert sim.time[0] < 0.15
    assert sim.time[1] == pytest.approx(0.15)
    assert sim.steps[0] == 1 < sim.steps[1]


def test_body_touching_the_box_stops_only_its_simulation(tiny: bool) -> None:
    sim = make(tiny)
    sim.body_state.position[0, 0] = (0.4, 1.0)  # it reaches over the inflow
    sim.settle()
    sim.ending_contacts[:] = Contact.BOX
    assert sim.advance(0.15).tolist() == [True, False]
    assert sim.steps[0] == 1 < sim.steps[1]


def test_diverged_simulation_stops_alone(tiny: bool) -> None:
    sim, other = make(tiny), make(tiny, batch=1)
    sim.u[0, 4, 4] = np.inf
    sim.advance(0.1)
    other.advance(0.1)
    assert sim.diverged.tolist() == [True, False]
    np.testing.assert_array_equal(sim.get_state(1)["u"], other.get_state(0)["u"])


def test_restored_state_continues_bit_for_bit(tiny: bool) -> None:
    sim = make(tiny)
    sim.advance_steps(1)
    kept = sim.get_state(0)
    sim.advance_steps(1)
    expected = sim.get_state(0)
    other = make(tiny)
    other.set_state(1, kept)
    other.advance_steps(1)
    for name, values in expected.items():
        np.testing.assert_array_equal(other.get_state(1)[name], values, err_msg=name)


def test_restoring_states_together_equals_one_by_one(tiny: bool) -> None:
    """In two of three simulations, in another order; the third stays as it is."""
    sim, other = make(tiny, batch=3), make(tiny, batch=3)
    kept = [sim.get_state(0)]
    sim.advance_steps(1)
    kept.append(sim.get_state(0))
    stored = sim.store_states({name: np.stack([one[name] for one in kept]) for name in kept[0]})
    went_on = sim.get_state(1)
    sim.restore_states([2, 0], stored, [0, 1])
    for b, expected in ((0, kept[1]), (1, went_on), (2, kept[0])):
        for name, values in expected.items():
            np.testing.assert_array_equal(sim.get_state(b)[name], values, err_msg=name)
    for b in (2, 0):
        other.set_state(b, sim.get_state(b))
        other.add_velocity(b, 0.125, 0.25)
    sim.add_velocity([2, 0], 0.125, 0.25)
    sim.reset(np.array([True, False, False]))
    other.reset(np.array([True, False, False]))
    for b in (0, 2):
        for name, values in other.get_state(b).items():
            np.testing.assert_array_equal(sim.get_state(b)[name], values, err_msg=name)


def test_reset_restarts_one_simulation(tiny: bool) -> None:
    sim = make(tiny)
    begin = sim.get_state(0)
    sim.advance_steps(1)
    went_on = sim.get_state(1)
    sim.reset(np.array([True, False]))
    for name in ("u", "v", "pressure", "time", "body_position"):
        np.testing.assert_allclose(sim.get_state(0)[name], begin[name], atol=1e-13, err_msg=name)
        np.testing.assert_array_equal(sim.get_state(1)[name], went_on[name], err_msg=name)


def test_control_volume_force_is_the_same_on_both_backends() -> None:
    """The second measure of the force is the same on both backends."""
    sims = [
        Simulation(Grid(16, 16, 0.25), Sides.all("periodic"), [Disk(center=(2.0, 2.0))], viscosity=0.02,
                   dtype="float64", backend=backend)
        for backend in ("cpu", "cuda")
    ]  # fmt: skip
    volumes = [sim.measure_control_volumes(0.5) for sim in sims]
    for sim in sims:
        sim.step()
    assert np.isfinite(volumes[0].force).all()
    np.testing.assert_allclose(volumes[1].force, volumes[0].force, atol=1e-10)
    np.testing.assert_allclose(volumes[1].torque, volumes[0].torque, atol=1e-10)


@pytest.mark.gpu
def test_too_large_batch_is_refused_with_needed_and_free_memory() -> None:
    with pytest.raises(
        MemoryError, match=r"cells in float64 need .* GiB of GPU memory, but .* are free"
    ):
        Simulation(Grid(8192, 8192, 0.1), viscosity=0.1, batch=31, dtype="float64", backend="cuda")


@pytest.mark.gpu
def test_batch_uses_the_predicted_memory() -> None:
    import cupy

    pool = cupy.get_default_memory_pool()
    before = pool.used_bytes()
    sim = Simulation(Grid(1024, 512, 1 / 128), viscosity=0.01, batch=8, backend="cuda")
    used = pool.used_bytes() - before
    # the memory that cuFFT uses is not known
    assert used == pytest.approx(memory_needed(sim.grid, 8, "float32"), rel=0.25)


@pytest.mark.gpu
def test_an_action_needs_one_transfer_each_way(monkeypatch: pytest.MonkeyPatch) -> None:
    sim = make(False)
    sim.advance(0.2)  # compiles and captures
    calls: list[str] = []
    device = type(sim._device)
    for name in ("send_state", "fetch_state"):
        original = getattr(device, name)
        monkeypatch.setattr(
            device, name, lambda self, o=original, n=name: (calls.append(n), o(self))[1]
        )
    sim.advance(0.2)
    assert calls == ["send_state", "fetch_state"]
