"""V-RACER's loss over sequences of successive steps."""

import numpy as np
import pytest
from learners import GAMMA, a_batch, a_learner, box, loss_and_gradient
from pydantic import ValidationError

from rl_agent import AgentConfig, Learner
from rl_agent.replay import Source
from rl_agent.replay.batch import gather_batch, gather_sequences

CARRIED = {"network": "lstm", "acting": "carried", "sequence_length": 5}
WINDOWS = CARRIED | {"acting": "window"}


def source_of(learner):
    scale = learner.state_scale
    return Source(learner.memory, scale.mean, scale.per_std, GAMMA, 1.7)


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


@pytest.mark.parametrize("burn_in", [0, 2])
@pytest.mark.parametrize("settings", [{}, {"center_advantages": True, "state_dependent_std": True}])
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
    with pytest.raises(ValueError, match="sequence_length = 4 is for one agent per environment"):
        Learner(config, box(3, np.inf), box(2), agents=1, seed=0, agents_per_env=3)
