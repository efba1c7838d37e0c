"""PPO against its clipped objective, and its iterations."""

import numpy as np
import pytest
from learners import (
    GAMMA,
    a_batch,
    a_learner,
    assert_slopes,
    box,
    gaussian,
    loss_and_gradient,
    network,
)

from rl_agent import AgentConfig, Learner


@pytest.mark.parametrize("choices", [0, 3])
def test_ppo_matches_its_clipped_objective(choices):
    learner = a_learner("ppo", choices=choices, horizon=48, batch_size=24)
    algorithm = learner.algorithm
    if choices:
        algorithm.weights[:] *= 2.0
    _, batch = a_batch(learner)
    _, results, gradient = loss_and_gradient(algorithm, batch)
    assert 0 < results["far"].sum() < 24

    def policys_loss(flat):
        total = 0.0
        for b in range(24):
            s, a, mu = (
                x.astype(float)
                for x in (batch.windows[0, b], batch.action[b], batch.behaviour_mean[b])
            )
            outputs = network(algorithm, "policy", s, flat)
            if choices:
                rho = np.exp(outputs[int(a[0])]) / np.exp(outputs).sum() / mu[int(a[0])]
            else:
                sigma = np.log1p(np.exp(flat[algorithm.parts.slices["sigma"]]))
                rho = gaussian(a, outputs, sigma) / gaussian(
                    a, mu, batch.behaviour_std[b].astype(float)
                )
            advantage = float(batch.q_ret[b])
            total -= min(rho * advantage, min(max(rho, 0.8), 1.2) * advantage)
        return total / 24

    def values_loss(flat):
        errors = [
            network(algorithm, "value", batch.windows[0, b].astype(float), flat)[0]
            for b in range(24)
        ]
        return 0.5 * np.mean((np.array(errors) - batch.v_tbc) ** 2)

    parts = {"policy": policys_loss, "value": values_loss} | (
        {} if choices else {"sigma": policys_loss}
    )
    assert_slopes(algorithm, gradient, parts, least=1e-3, rtol=1e-3)


def test_ppo_cuts_at_its_horizon_and_uses_every_step_in_every_epoch():
    config = AgentConfig(
        algorithm="ppo",
        hidden=(6,),
        horizon=50,
        batch_size=10,
        epochs=3,
        gamma=GAMMA,
        gae_lambda=0.8,
    )
    learner = Learner(config, box(2, np.inf), box(1), agents=3, seed=0)
    rng, everyone = np.random.default_rng(0), np.arange(3)
    learner.begin(everyone, rng.normal(size=(3, 2)))
    seen, updates = [], 0
    for t in range(1, 200):
        assert learner.may_act()
        learner.act(everyone)
        ends = np.array([t % 7 == 0, t % 60 == 0, False])
        terminal = ends & np.array([True, False, False])
        learner.observe(everyone, np.ones(3), terminal, ends & ~terminal, rng.normal(size=(3, 2)))
        learner.begin(everyone[ends], rng.normal(size=(int(ends.sum()), 2)))
        due = learner.updates_due()
        if due == 0:
            assert learner.memory.storage.steps + learner.collector.open_episodes.length.sum() < 50
            continue
        indices = learner.memory.storage.indices()
        assert len(indices) == 51
        assert due == 3 * 5
        assert not learner.may_act()
        advantage = learner.memory.values.advantage[indices]
        assert advantage.mean() == pytest.approx(0.0, abs=1e-5)
        assert advantage.std() == pytest.approx(1.0, abs=1e-3)
        while learner.updates_due():
            learner.update()
            updates += 1
        assert learner.memory.storage.steps == 0
        seen.append(t)
    assert seen == [17 * k for k in range(1, 12)]
    assert updates == 15 * 11
    lengths = {record.agent: record.length for record in learner.finished_episodes()}
    # cuts leave the episodes of the record whole
    assert lengths[0] == 7
    assert lengths[1] == 60


def test_pending_action_at_the_horizon_belongs_to_the_next_iteration():
    config = AgentConfig(algorithm="ppo", hidden=(6,), horizon=8, batch_size=4, epochs=1)
    learner = Learner(config, box(1, np.inf), box(1), agents=2, seed=0)
    learner.begin([0, 1], [[1.0], [2.0]])
    learner.act([1])
    out = learner.collector.open_episodes.action[1, 0].copy()
    for t in range(8):
        learner.act([0])
        learner.observe([0], [1.0], [False], [False], [[float(t)]])
    assert learner.updates_due() == 2
    assert learner.collector.open_episodes.is_waiting[1]
    # it comes back while the others' steps are learned from, and ends its episode
    learner.update()
    learner.observe([1], [7.0], [True], [False], [[3.0]])
    assert learner.memory.storage.steps == 9
    learner.update()
    assert learner.updates_due() == 0
    place = learner.memory.storage.indices()
    assert len(place) == 1
    np.testing.assert_array_equal(learner.memory.storage.action[place[0]], out)
    assert learner.memory.storage.reward[place[0]] == 7.0

    # an agent that is cut in the middle of an episode keeps its pending action
    for t in range(3):
        learner.act([0])
        learner.observe([0], [1.0], [False], [False], [[float(t)]])
    learner.act([0])
    out = learner.collector.open_episodes.action[0, 3].copy()
    learner.begin([1], [[0.0]])
    for t in range(4):
        learner.act([1])
        learner.observe([1], [1.0], [False], [False], [[float(t)]])
    assert learner.updates_due() == 2
    np.testing.assert_array_equal(learner.collector.open_episodes.action[0, 0], out)
    assert learner.collector.open_episodes.is_waiting[0]
    learner.observe([0], [2.0], [True], [False], [[0.0]])
    *_, record = learner.finished_episodes()
    assert (record.episode_return, record.length) == (8 + 3 + 2.0, 12)
