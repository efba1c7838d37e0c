"""V-RACER's loss over sequences of successive steps."""

import numpy as np
import pytest
from learners import (
    GAMMA,
    a_batch,
    a_learner,
    assert_equal_to_the_bit,
    box,
    loss_and_gradient,
)
from pydantic import ValidationError

from rl_agent import AgentConfig, Learner
from rl_agent.config.defaults import fit
from rl_agent.replay import Source
from rl_agent.replay.batch import gather_batch, gather_sequences

CARRIED = {"network": "lstm", "acting": "carried", "sequence_length": 5}
WINDOWS = CARRIED | {"acting": "window"}
STORED = CARRIED | {"initial_state": "stored", "window": 1}


def source_of(learner):
    scale = learner.state_scale
    return Source(learner.memory, scale.mean, scale.per_std, GAMMA, 1.7)


def a_learner_acting_as(learner):
    """A learner with the weights of another, and episodes in which it acted with them."""
    again = Learner(learner.config, box(3, np.inf), box(2), agents=2, seed=4)
    again.algorithm.weights[:] = learner.algorithm.weights
    rng, everyone = np.random.default_rng(5), np.arange(2)
    again.state_scale.freeze(rng.normal(size=(50, 3)).astype(np.float32))
    again.begin(everyone, rng.normal(size=(2, 3)))
    for t in range(40):
        again.act(everyone)
        ends = np.full(2, t % 12 == 11)
        again.observe(everyone, rng.normal(size=2), 0 * ends, ends, rng.normal(size=(2, 3)))
        again.begin(everyone[ends], rng.normal(size=(int(ends.sum()), 3)))
    return again


def test_sequences_are_the_successive_steps_of_an_episode():
    learner = a_learner("vracer", **CARRIED)
    storage = learner.memory.storage
    ends = storage.episode_indices(3)[[9, 2, 0, 6]]
    indices, batch = gather_sequences(source_of(learner), ends, window=3, length=5)
    starts = storage.start[3]
    expected = [5, 6, 7, 8, 9, 0, 1, 2, 0, 2, 3, 4, 5, 6]  # of the ends 9, 2, 0 and 6
    assert sorted(indices - starts) == sorted(expected)
    assert batch.windows.shape == (8, 4, 3)
    np.testing.assert_array_equal(batch.lengths, [8, 7, 3, 1])  # those of the ends 9, 6, 2, 0
    last = batch.windows.reshape(-1, 3)[batch.index]
    seen = (storage.observation[indices] - learner.state_scale.mean) * learner.state_scale.per_std
    np.testing.assert_allclose(last, seen, atol=1e-6)
    np.testing.assert_array_equal(batch.action, storage.action[indices])


def test_the_loss_of_sequences_is_that_of_their_steps_if_each_has_its_window():
    """With ``acting`` window the network sees the same window at a step of a sequence as at a single step."""
    learner = a_learner("vracer", **WINDOWS)
    algorithm = learner.algorithm
    indices, sequences = a_batch(learner)
    assert len(indices) > 2 * learner.config.batch_size
    single, steps = gather_batch(source_of(learner), indices, algorithm.network.history)
    order = np.argsort(indices, kind="stable")
    loss, results, gradient = loss_and_gradient(algorithm, sequences)
    expected, of_steps, slope = loss_and_gradient(algorithm, steps)
    assert loss == pytest.approx(expected, rel=1e-9)
    np.testing.assert_allclose(gradient, slope, atol=1e-9 * np.abs(slope).max())
    same = np.argsort(single, kind="stable")
    np.testing.assert_allclose(results["rho"][order], of_steps["rho"][same], rtol=1e-9)


@pytest.mark.parametrize("burn_in", [0, 2])
def test_a_carried_state_runs_along_the_sequence(burn_in):
    """From zero, at the first stored step of the history before the sequence."""
    learner = a_learner("vracer", **CARRIED | {"window": 1, "burn_in": burn_in})
    algorithm, storage = learner.algorithm, learner.memory.storage
    network, weights = algorithm.network, algorithm.host_weights["network"]
    end = storage.episode_indices(2)[8]
    indices, batch = algorithm.gather(source_of(learner), np.array([end]))
    _, results, _ = loss_and_gradient(algorithm, batch, dtype=np.float32)
    state = np.zeros((1, *network.state_shape), np.float32)
    values = {}
    for k in range(end - 4 - 1 - burn_in, end + 1):
        seen = (storage.observation[[k]] - learner.state_scale.mean) * learner.state_scale.per_std
        outputs, state = network.step(weights, seen.astype(np.float32), state)
        values[k] = outputs[0, 0]
    assert list(indices) == list(range(end - 4, end + 1))
    np.testing.assert_allclose(results["value"], [values[k] for k in indices], atol=1e-6)


@pytest.mark.parametrize("length", [1, 5])
def test_with_stored_states_an_unchanged_policy_has_importance_weights_of_one(length):
    """A window from zero is another policy than the one that acted, except near the start of an episode."""
    for initial, is_exact in (("stored", True), ("zero", False)):
        settings = STORED | {"initial_state": initial, "sequence_length": length}
        learner = a_learner("vracer", moved=0.0, hidden=(16, 16), **settings)
        learner.algorithm.weights[:] *= 2.0  # so that the state matters
        again = a_learner_acting_as(learner)
        _, batch = a_batch(again)
        if initial == "zero" and length == 1:
            batch = again.algorithm.gather(source_of(again), again.memory.storage.indices())[1]
        _, results, _ = loss_and_gradient(again.algorithm, batch, dtype=np.float32)
        far = np.abs(results["rho"] - 1.0).max()
        assert far < 1e-4 if is_exact else far > 1e-2


@pytest.mark.parametrize("length", [1, 5])
def test_with_stored_states_final_values_are_those_of_the_policy_that_acted(length):
    learner = a_learner(
        "vracer", moved=0.0, hidden=(16, 16), **STORED | {"sequence_length": length}
    )
    learner.algorithm.weights[:] *= 2.0
    again = a_learner_acting_as(learner)
    rows = again.memory.storage.truncated_rows()
    values = again.memory.values.final_value[rows].copy()
    assert np.abs(values).max() > 1e-2
    again.values.refresh_final_values()
    np.testing.assert_allclose(again.memory.values.final_value[rows], values, atol=1e-5)


def test_a_run_with_stored_states_continues_to_the_bit(tmp_path):
    learner = a_learner("vracer", **STORED)
    learner.update()
    assert learner.memory.storage.recurrent_state.any()
    learner.save(tmp_path / "checkpoint.npz")
    other = Learner.load(tmp_path / "checkpoint.npz")
    for each in (learner, other):
        each.act([0, 1])
        each.update()
    assert_equal_to_the_bit(learner, other)


@pytest.mark.parametrize(
    "settings", [{}, {"center_advantages": True, "state_dependent_std": True}, STORED]
)
@pytest.mark.parametrize("burn_in", [0, 2])
def test_analytic_gradient_equals_autograd(burn_in, settings):
    learner = a_learner("vracer", **CARRIED | settings, burn_in=burn_in, replay="refer")
    algorithm = learner.algorithm
    rules = learner.refer.rules(0)._replace(c_max=1.5, beta=0.6)
    for seed in (1, 2):
        _, batch = a_batch(learner, seed)
        found = algorithm.analytic_gradient(batch, rules, None)
        _, results, expected = loss_and_gradient(algorithm, batch, rules)
        assert 0 < found.far.sum() < len(found.far)
        scale = np.abs(expected).max()
        assert scale > 1e-3
        np.testing.assert_allclose(algorithm.last_gradient, expected, atol=3e-5 * scale)
        for kind in ("value", "rho", "kl"):
            np.testing.assert_allclose(getattr(found, kind), results[kind], rtol=3e-4, atol=3e-5)


@pytest.mark.parametrize("settings", [CARRIED, WINDOWS, CARRIED | {"trunks": "separate"}])
def test_updates_refresh_every_step_of_the_sequences(settings):
    learner = a_learner("vracer", **settings)
    before = learner.memory.values.rho.copy()
    learner.update()
    assert (learner.memory.values.rho != before).sum() > learner.config.batch_size


@pytest.mark.parametrize(
    ("message", "settings"),
    [
        ("sequence_length = 4 is a setting of network = lstm", {"network": "mlp"}),
        ("initial_state = stored is for one LSTM", {"initial_state": "stored", "acting": "window"}),
        ("use acting = carried", {"initial_state": "stored", "trunks": "separate"}),
        ("sampler = rank cannot weigh", {"sampler": "rank", "replay": "none"}),
        ("device = cuda cannot capture", {"device": "cuda"}),
    ],
)
def test_settings_that_do_not_fit_sequences_are_refused(message, settings):
    with pytest.raises(ValidationError, match=message):
        AgentConfig(algorithm="vracer", **{"network": "lstm", "sequence_length": 4} | settings)


def test_burn_in_needs_an_lstm():
    with pytest.raises(ValidationError, match="burn_in = 4 is a setting of network = lstm"):
        AgentConfig(algorithm="sac", burn_in=4)


def test_sequences_of_several_agents_are_refused():
    config = AgentConfig(algorithm="vracer", network="lstm", sequence_length=4)
    with pytest.raises(ValueError, match="sequence_length and initial_state are for one agent"):
        Learner(config, box(3, np.inf), box(2), agents=1, seed=0, agents_per_env=3)


def test_a_run_with_stored_states_acts_with_the_carried_state():
    settings = {"algorithm": "vracer", "network": "lstm"}
    assert fit(AgentConfig(**settings), 20_000, 200).acting == "window"
    assert fit(AgentConfig(**settings, initial_state="stored"), 20_000, 200).acting == "carried"
