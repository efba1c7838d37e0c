"""NERS and ERO against brute force: features, equivariance, weights and the gradients of REINFORCE."""

import numpy as np
import pytest
import torch

from rl_agent.normalization.spaces import Sizes
from rl_agent.replay import Episode, EpisodeMemory, SampledBatch, Source
from rl_agent.replay.samplers.ero import EROSampler
from rl_agent.replay.samplers.features import FEATURES, Features, TDStatistics
from rl_agent.replay.samplers.ners import NERSSampler
from rl_agent.replay.samplers.performance import Performance
from rl_agent.replay.samplers.score_network import ScoreNetwork
from rl_agent.replay.storage import EXPERIENCE

CAPACITY = 40
MEAN, PER_STD = np.array([0.3, -0.2], np.float32), np.array([1.5, 0.5], np.float32)


def a_memory(choices=0, lengths=(9, 14, 12), seed=0):
    memory, rng = EpisodeMemory(CAPACITY, 2, 1, choices), np.random.default_rng(seed)
    for length in lengths:
        sample = lambda *shape: rng.normal(size=shape).astype(np.float32)  # noqa: E731
        memory.add(
            Episode(
                observation=sample(length, 2),
                action=rng.integers(0, choices, (length, 1)).astype(np.float32)
                if choices
                else sample(length, 1),
                behaviour_mean=np.ones((length, choices or 1), np.float32),
                behaviour_std=np.ones((length, 0 if choices else 1), np.float32),
                reward=sample(length),
                value=sample(length),
                final_observation=sample(2),
                final_value=0.0,
                terminated=True,
            ),
            0.9,
            1.0,
        )
    return memory


def source_of(memory):
    return Source(memory, MEAN, PER_STD, 0.9, 2.0)


def a_ners(memory, *, names=FEATURES, has_context=True, choices=0, seed=0, steps=16):
    features = Features(names, Sizes(2, 1, choices))
    network = ScoreNetwork(features.size, np.random.default_rng(seed), has_context=has_context)
    return NERSSampler(memory.storage.capacity, 0.5, features, network, 1e-3, steps)


def by_torch(network, features, weights=None):
    """Scores as eqs. 3 and 4 write them, in double precision."""
    weights = torch.tensor(network.weights, dtype=torch.float64) if weights is None else weights
    views, x = network._parts.views(weights), torch.tensor(features, dtype=torch.float64)[None]
    lengths = torch.ones(len(features))
    below = []
    for name in network._below:
        out = network._parts.parts[name].reference(views[name], x, lengths)
        below.append(out if name == "local" else out.mean(0).expand_as(out))
    seen = torch.cat(below, 1)[None] if below else x
    return torch.sigmoid(
        network._parts.parts["score"].reference(views["score"], seen, lengths)[:, 0]
    )


@pytest.mark.parametrize("choices", [0, 3])
def test_features_match_equation_2(choices):
    memory = a_memory(choices, (9, 14, 12, 11))  # the first episode has left again
    td_statistics, rng = TDStatistics(CAPACITY), np.random.default_rng(1)
    source, indices = source_of(memory), memory.storage.indices()[[0, 5, 13, 14, 24, 36]]
    seen = indices[1:4]
    errors, values = rng.normal(size=3).astype(np.float32), rng.normal(size=3).astype(np.float32)
    td_statistics.take(SampledBatch(source, seen, errors, values, errors))
    found = Features(FEATURES, Sizes(2, 1, choices))(source, indices, td_statistics)
    for row, k in zip(found, indices, strict=True):
        e = memory.storage.rows(np.array([k]))[0]
        last = memory.storage.position[k] + 1 == memory.storage.length[e]
        after = (
            memory.storage.final_observation[e]
            if last
            else memory.storage.observation[(k + 1) % CAPACITY]
        )
        action = (
            np.eye(choices)[int(memory.storage.action[k, 0])]
            if choices
            else np.tanh(memory.storage.action[k])
        )
        number = 46 - 37 + list(memory.storage.indices()).index(k)
        known = list(seen).index(k) if k in seen else None
        expected = [
            *np.tanh((memory.storage.observation[k] - MEAN) * PER_STD),
            *action,
            np.tanh(memory.storage.reward[k] / 2.0),
            *np.tanh((after - MEAN) * PER_STD),
            np.tanh(number / 46),
            1.0 if known is None else np.tanh(errors[known]),
            1.0 if known is None else np.tanh(values[known] + errors[known]),
        ]
        np.testing.assert_allclose(row, expected, rtol=1e-5, atol=1e-6)


def test_every_feature_can_be_left_out():
    memory = a_memory()
    full = Features(FEATURES, Sizes(2, 1)).size
    for name in FEATURES:
        features = Features([other for other in FEATURES if other != name], Sizes(2, 1))
        assert full - features.size == (2 if "state" in name else 1)
        assert features(
            source_of(memory), memory.storage.indices(), TDStatistics(CAPACITY)
        ).shape == (
            35,
            features.size,
        )


def test_scores_are_equivariant_and_depend_on_other_steps_only_with_context():
    rng = np.random.default_rng(0)
    features, order = rng.normal(size=(10, 6)).astype(np.float32), rng.permutation(10)
    for has_context in (True, False):
        network = ScoreNetwork(6, np.random.default_rng(0), has_context=has_context)
        network.weights[:] *= 2.0
        scores = network(features).copy()
        np.testing.assert_allclose(network(features[order]), scores[order], rtol=1e-5)
        alone = np.concatenate([network(features[k : k + 1]).copy() for k in range(10)])
        assert np.allclose(alone, scores, rtol=1e-5) != has_context
        np.testing.assert_allclose(scores, by_torch(network, features), rtol=1e-4)


@pytest.mark.parametrize("kind", ["ners", "ners, no context", "ero"])
def test_network_gradient_equals_autograd(kind):
    rng = np.random.default_rng(0)
    features, d_scores = (
        rng.normal(size=(12, 6)).astype(np.float32),
        rng.normal(size=12).astype(np.float32),
    )
    layers = {"local": False, "has_context": False, "hidden": (64, 64)} if kind == "ero" else {}
    layers |= {"has_context": False} if "no context" in kind else {}
    network = ScoreNetwork(6, np.random.default_rng(1), **layers)
    network(features)
    network.differentiate(d_scores)
    weights = torch.tensor(network.weights, dtype=torch.float64, requires_grad=True)
    (by_torch(network, features, weights) @ torch.tensor(d_scores, dtype=torch.float64)).backward()
    np.testing.assert_allclose(network.gradient, weights.grad, rtol=1e-3, atol=1e-6)


def test_reinforce_gradient_is_that_of_the_log_probabilities_of_equation_1():
    memory, rng = a_memory(), np.random.default_rng(0)
    sampler = a_ners(memory)
    source = source_of(memory)
    for _ in range(3):
        indices = sampler.sample(memory.storage, 8, rng)
        errors = rng.normal(size=8).astype(np.float32)
        sampler.learn(SampledBatch(source, indices, errors, errors, errors))
    chosen = memory.storage.indices()[3:11]
    stored = sampler._priorities.error.copy()
    scores = sampler.network(sampler._features(source, chosen, sampler._td_statistics)).copy()

    def mean_log_chance(sigma):
        priority = stored.copy()
        priority[chosen] = sigma
        share = priority**0.5 / np.sum(priority[memory.storage.indices()] ** 0.5)
        return np.log(share[chosen]).mean()

    numeric = [
        (mean_log_chance(scores + h) - mean_log_chance(scores - h)) / 2e-5
        for h in 1e-5 * np.eye(8)  # of one score each
    ]
    np.testing.assert_allclose(sampler.grad_log_chances(scores, chosen), numeric, rtol=1e-4)


def test_sampled_steps_get_scores_and_weights_match_equation_5():
    memory, rng = a_memory(), np.random.default_rng(0)
    sampler, source = a_ners(memory), source_of(memory)
    priority = np.ones(CAPACITY)  # new steps have 1
    for _ in range(5):
        indices = sampler.sample(memory.storage, 8, rng)
        chance = priority[indices] ** 0.5 / np.sum(priority[memory.storage.indices()] ** 0.5)
        weights = (1.0 / (35 * chance)) ** 0.4
        np.testing.assert_allclose(
            sampler.weights(indices, 0.4), weights / weights.max(), rtol=1e-5
        )
        errors = rng.normal(size=8).astype(np.float32)
        sampler.learn(SampledBatch(source, indices, errors, errors, errors))
        # a step that was sampled twice has two equal features, so two equal scores
        priority[indices] = by_torch(
            sampler.network, sampler._features(source, indices, sampler._td_statistics)
        )
        np.testing.assert_allclose(sampler._priorities.error[indices], priority[indices], rtol=1e-4)
        assert sampler._tree[1] == pytest.approx(
            np.sum(sampler._priorities.error[memory.storage.indices()] ** 0.5)
        )


def test_update_ascends_the_gradient_of_equation_7():
    memory, rng = a_memory(), np.random.default_rng(0)
    sampler, source = a_ners(memory, steps=100), source_of(memory)
    indices = sampler.sample(memory.storage, 8, rng)
    errors = rng.normal(size=8).astype(np.float32)
    sampler.learn(SampledBatch(source, indices, errors, errors, errors))
    before, chosen = sampler.network.weights.copy(), np.unique(indices)
    sampler.reward(source, 2.5, rng)
    weights = torch.tensor(before, dtype=torch.float64, requires_grad=True)
    sigma = by_torch(
        sampler.network, sampler._features(source, chosen, sampler._td_statistics), weights
    )
    others = sampler._tree[1] - sampler._tree[sampler._leaves + chosen].sum()
    (2.5 * (0.5 * torch.log(sigma) - torch.log(others + sigma.sqrt().sum())).mean()).backward()
    # I_train has another order, which does not change the sum
    np.testing.assert_allclose(-sampler.network.gradient, weights.grad, rtol=2e-3, atol=1e-6)
    assert np.array_equal(
        np.sign(sampler.network.weights - before), -np.sign(sampler.network.gradient)
    )
    again = sampler.network.weights.copy()
    sampler.reward(source, 1.0, rng)  # nothing was sampled since
    sampler.sample(memory.storage, 8, rng)
    sampler.reward(source, 0.0, rng)
    np.testing.assert_array_equal(sampler.network.weights, again)


def test_steps_that_improved_the_agent_get_higher_scores():
    """Performance is the fraction of positive rewards among the sampled steps, so scores must separate them."""
    memory, rng = a_memory(), np.random.default_rng(0)
    features = Features(("reward",), Sizes(2, 1))
    network = ScoreNetwork(1, rng, local=False, has_context=False, hidden=(16,))
    sampler, source = NERSSampler(CAPACITY, 0.5, features, network, 3e-3, 8), source_of(memory)
    indices, good, before = memory.storage.indices(), memory.storage.reward > 0, 0.5
    for _ in range(400):
        sampled = sampler.sample(memory.storage, 8, rng)
        sampler.learn(SampledBatch(source, sampled, *np.zeros((3, 8), np.float32)))
        now = good[sampled].mean()
        sampler.reward(source, now - before, rng)
        before = now
    scores = sampler.network(sampler._features(source, indices, sampler._td_statistics))
    assert scores[good[indices]].mean() > 1.5 * scores[~good[indices]].mean()


def test_ero_samples_uniformly_from_masked_and_newer_steps():
    memory, rng = a_memory(), np.random.default_rng(0)
    sampler = EROSampler(CAPACITY, 1e-3, 16, rng)
    assert set(sampler.sample(memory.storage, 2000, rng)) == set(memory.storage.indices())
    sampler.score[:] = rng.uniform(size=CAPACITY).astype(np.float32)
    passed = np.zeros(CAPACITY)
    for _ in range(3000):
        sampler.reward(source_of(memory), 0.0, rng)
        passed[memory.storage.indices(sampler.masked)] += 1
    spread = np.sqrt(sampler.score * (1 - sampler.score) / 3000)
    assert (
        np.abs(passed / 3000 - sampler.score)[memory.storage.indices()]
        < 4.5 * spread[memory.storage.indices()] + 1e-9
    ).all()
    chances = sampler.score[memory.storage.indices()].astype(float)
    share = chances.sum() ** 2 / (len(chances) * (chances**2).sum())
    assert sampler.effective_share(memory.storage) == pytest.approx(share)
    # the oldest episode is removed and a new one added; the allowed steps are counted by hand
    old = {k for k in memory.storage.indices(sampler.masked) if memory.storage.episode_id[k] > 0}
    newest = a_memory(lengths=(11,), seed=5)
    memory.add(
        Episode(
            **{name: getattr(newest.storage, name)[:11] for name in EXPERIENCE},
            value=newest.values.value[:11],
            final_observation=newest.storage.final_observation[0],
            final_value=0.0,
            terminated=True,
        ),
        0.9,
        1.0,
    )
    allowed = old | set(memory.storage.indices()[-11:])
    sampled = sampler.sample(memory.storage, 400 * len(allowed), rng)
    assert set(sampled) == allowed
    counts = np.bincount(sampled)[sorted(allowed)]
    assert np.abs(counts - 400).max() < 5 * 20


def test_ero_gradient_is_that_of_its_log_likelihood():
    memory, rng = a_memory(), np.random.default_rng(0)
    sampler = EROSampler(CAPACITY, 1e-3, 16, rng)
    sampler.score[:] = 0.5
    sampler.evaluated_end = memory.storage.added  # nothing is new
    sampler.reward(source_of(memory), 0.0, rng)
    numbers, phi = np.arange(35), rng.uniform(0.1, 0.9, 35)
    mask = np.isin(numbers, sampler.masked)
    assert 5 < mask.sum() < 30
    log_likelihood = lambda p: np.where(mask, np.log(p), np.log(1 - p)).mean()  # noqa: E731
    numeric = [
        (log_likelihood(phi + h) - log_likelihood(phi - h)) / 2e-6 for h in 1e-6 * np.eye(35)
    ]
    np.testing.assert_allclose(sampler.grad_log_mask(phi, numbers), numeric, rtol=1e-4)


def test_performance_is_the_change_of_the_mean_return():
    performance = Performance()
    changes = [performance.add(value, 2) for value in (1.0, 3.0, 5.0, 7.0, 0.0, 2.0)]
    assert changes == [None, None, None, 4.0, None, -5.0]
