import numpy as np
import pytest
import scipy.stats
from learners import source_of

from rl_agent import AgentConfig
from rl_agent.normalization.spaces import Sizes
from rl_agent.replay import (
    Episode,
    EpisodeMemory,
    EpochSampler,
    SampledBatch,
    SegmentSampler,
    UniformSampler,
    make_sampler,
)
from rl_agent.replay.samplers.ero import EROSampler
from rl_agent.replay.samplers.ners import NERSSampler
from rl_agent.replay.samplers.prioritized import (
    SORT_INTERVAL,
    ProportionalSampler,
    RankSampler,
)

KINDS = {"proportional": ProportionalSampler, "rank": RankSampler}


def add(memory, length, tag=0.0):
    column = np.zeros((length, 1), np.float32)
    memory.add(
        Episode(
            observation=column + tag,
            action=column,
            behaviour_mean=column,
            behaviour_std=column + 1,
            reward=column[:, 0],
            value=column[:, 0],
            final_observation=column[0],
            final_value=0.0,
            terminated=True,
        ),
        0.9,
        1.0,
    )


def filled(capacity=40, *lengths):
    memory = EpisodeMemory(capacity, 1, 1)
    for tag, length in enumerate(lengths or (12, 20)):
        add(memory, length, tag)
    return memory


def found(sampler, memory, indices, errors):
    """Give a sampler the results of an update."""
    sampler.learn(SampledBatch(source_of(memory), indices, errors, np.zeros_like(errors), errors))


def is_plausible(counts, probabilities):
    expected = counts.sum() * probabilities
    return scipy.stats.chisquare(counts, expected * counts.sum() / expected.sum()).pvalue > 1e-3


def test_uniform_sampling_is_uniform():
    memory, rng = filled(), np.random.default_rng(0)
    sampled = UniformSampler().sample(memory.storage, 64_000, rng)
    assert is_plausible(np.bincount(sampled, minlength=40)[:32], np.full(32, 1 / 32))


def test_episode_share_samples_episodes_equally_regardless_of_length():
    memory, rng = filled(40, 10, 4, 20), np.random.default_rng(0)
    add(memory, 8, 3.0)  # this removes the first one and wraps around the end of the ring
    sampled = UniformSampler(0.25).sample(memory.storage, 64_000, rng)
    each = np.array([4, 20, 8])
    expected = 0.75 / 32 + 0.25 / 3 / np.repeat(each, each)
    assert is_plausible(np.bincount(memory.storage.step_ids(sampled) - 10, minlength=32), expected)
    alone = UniformSampler(1.0).sample(memory.storage, 60_000, rng)
    assert is_plausible(
        np.bincount(memory.storage.episode_id[alone], minlength=4)[1:], np.full(3, 1 / 3)
    )


@pytest.mark.parametrize("kind", KINDS)
def test_steps_are_sampled_with_the_probabilities_of_the_paper(kind):
    memory, rng = filled(), np.random.default_rng(1)
    sampler = KINDS[kind](40, 0.7)
    indices = memory.storage.indices()
    sampler.sample(memory.storage, 1, rng)
    errors = rng.lognormal(0, 1.5, 32).astype(np.float32) * rng.choice([-1, 1], 32).astype(
        np.float32
    )
    found(sampler, memory, indices, errors)
    if kind == "proportional":
        priority = np.abs(errors.astype(float)) + 1e-6
    else:
        priority = 1.0 / scipy.stats.rankdata(-np.abs(errors))
        for _ in range(SORT_INTERVAL - 1):  # the next sample sorts
            sampler.sample(memory.storage, 1, rng)
    probabilities = priority**0.7 / np.sum(priority**0.7)
    # a sample for each batch: the segments of one batch are not independent
    sampled = np.concatenate([sampler.sample(memory.storage, 1, rng) for _ in range(20_000)])
    counts = np.bincount(sampled, minlength=40)
    assert counts[32:].sum() == 0
    assert is_plausible(counts[:32], probabilities)
    # and a whole batch takes each step about as often as its probability says
    batch = np.concatenate([sampler.sample(memory.storage, 50, rng) for _ in range(1000)])
    np.testing.assert_allclose(np.bincount(batch, minlength=32) / 50_000, probabilities, atol=0.008)

    weights = sampler.weights(indices, 0.4)
    expected = (32 * probabilities) ** -0.4
    np.testing.assert_allclose(weights, expected / expected.max(), rtol=1e-5)
    # two samples are the same step n sum p^2 times as often as uniform ones
    assert 1.0 / sampler.effective_share(memory.storage) == pytest.approx(
        32 * (probabilities**2).sum()
    )


@pytest.mark.parametrize("kind", KINDS)
def test_fully_corrected_weighted_mean_is_unbiased(kind):
    memory, rng = filled(), np.random.default_rng(2)
    sampler = KINDS[kind](40, 0.6)
    indices = memory.storage.indices()
    sampler.sample(memory.storage, 1, rng)
    found(sampler, memory, indices, rng.lognormal(0, 1, 32).astype(np.float32))
    quantity = rng.normal(size=40)
    sampled = np.concatenate([sampler.sample(memory.storage, 32, rng) for _ in range(4000)])
    weights = sampler.weights(sampled, 1.0)
    assert np.average(quantity[sampled], weights=weights) == pytest.approx(
        quantity[:32].mean(), abs=0.03
    )
    # without the weights it is another one
    assert abs(quantity[sampled].mean() - quantity[:32].mean()) > 0.03


@pytest.mark.parametrize("kind", KINDS)
def test_priorities_follow_added_and_removed_steps(kind):
    memory, rng = EpisodeMemory(40, 1, 1), np.random.default_rng(3)
    sampler = KINDS[kind](40, 0.8)
    for tag in range(200):
        add(memory, int(rng.integers(1, 15)), tag)
        for _ in range(int(rng.integers(0, 3))):
            sampled = sampler.sample(memory.storage, 16, rng)
            assert np.isin(sampled, memory.storage.indices()).all()
            found(sampler, memory, sampled, rng.normal(size=16).astype(np.float32) * 0.01)
    known = sampler._priorities.error
    stored = np.isin(np.arange(40), memory.storage.indices())
    sampler.sample(memory.storage, 1, rng)
    assert (known[stored] > 0).all()
    assert not known[~stored].any()
    if kind == "proportional":
        leaves = sampler._tree[sampler._leaves : sampler._leaves + 40]
        np.testing.assert_allclose(leaves[stored], known[stored] ** 0.8)
        assert sampler._tree[1] == pytest.approx(leaves.sum(), rel=1e-12)


@pytest.mark.parametrize("kind", KINDS)
def test_new_steps_are_sampled_first(kind):
    memory, rng = filled(40, 20), np.random.default_rng(4)
    sampler = KINDS[kind](40, 1.5)
    sampler.sample(memory.storage, 16, rng)
    found(sampler, memory, memory.storage.indices(), np.full(20, 1e-3, np.float32))
    add(memory, 5)
    sampled = sampler.sample(memory.storage, 1000, rng)
    assert np.mean(sampled >= 20) > 0.75  # by rank 1.76 of 2.22, whatever the errors


@pytest.mark.parametrize("kind", KINDS)
def test_restored_sampler_samples_the_same(kind):
    memory, rng = filled(), np.random.default_rng(5)
    sampler = KINDS[kind](40, 0.7)
    for _ in range(7):
        sampled = sampler.sample(memory.storage, 8, rng)
        found(sampler, memory, sampled, rng.normal(size=8).astype(np.float32))
    other = KINDS[kind](40, 0.7)
    other.restore(memory.storage, {name: array.copy() for name, array in sampler.save().items()})
    for seed in range(200):
        pair = [
            one.sample(memory.storage, 8, np.random.default_rng(seed)) for one in (sampler, other)
        ]
        np.testing.assert_array_equal(*pair)
        np.testing.assert_array_equal(sampler.weights(pair[0], 0.4), other.weights(pair[0], 0.4))
        for one in (sampler, other):
            found(
                one, memory, pair[0], np.random.default_rng(seed).normal(size=8).astype(np.float32)
            )


@pytest.mark.parametrize("kind", KINDS)
def test_effective_share_does_not_change_the_samples(kind):
    asked, silent = KINDS[kind](40, 0.7), KINDS[kind](40, 0.7)
    memory = filled(40, 12)
    assert np.isnan(asked.effective_share(memory.storage))  # nothing has been sampled
    for seed in range(60):
        rngs = [np.random.default_rng(seed) for _ in range(2)]
        errors = np.random.default_rng(seed + 1000).normal(size=8).astype(np.float32)
        pair = [
            one.sample(memory.storage, 8, rng)
            for one, rng in zip((asked, silent), rngs, strict=True)
        ]
        np.testing.assert_array_equal(*pair)
        for one in (asked, silent):
            found(one, memory, pair[0], errors)
        assert 1 / 40 <= asked.effective_share(memory.storage) <= 1.0
        add(memory, seed % 7 + 1)
        asked.effective_share(memory.storage)


def test_uniform_sampling_has_no_effective_share():
    assert UniformSampler().effective_share(filled()) is None


def test_epoch_uses_every_step_once_in_a_new_order():
    sampler, rng = EpochSampler(), np.random.default_rng(0)
    indices = np.arange(100, 113)
    sampler.begin(indices, 3)
    assert sampler.left(4) == 9
    orders = []
    for _ in range(3):
        sampled = np.concatenate([sampler.sample(None, 4, rng) for _ in range(3)])
        assert len(set(sampled)) == 12
        assert np.isin(sampled, indices).all()
        orders.append(tuple(sampled))
    assert len(set(orders)) == 3
    assert sampler.left(4) == 0
    with pytest.raises(ValueError, match="every step has been used"):
        sampler.sample(None, 4, rng)


def test_segments_end_uniformly_in_equally_likely_episodes():
    memory, rng = filled(60, 4, 30, 10), np.random.default_rng(0)
    ends = SegmentSampler(10, None).sample(memory.storage, 60_000, rng)
    assert (ends[ends < 4] == 3).all()  # a short episode is taken whole
    assert is_plausible(np.bincount(memory.storage.rows(ends), minlength=3), np.full(3, 1 / 3))
    inside = ends[(ends >= 4) & (ends < 34)]
    assert is_plausible(np.bincount(inside - 4, minlength=30)[9:], np.full(21, 1 / 21))
    assert inside.min() == 4 + 9


def test_on_policy_calls_alternate_with_a_poisson_number_of_replays():
    memory, rng = filled(200, *([5] * 40)), np.random.default_rng(0)
    sampler, gaps, since = SegmentSampler(5, 4.0), [], 0
    for _ in range(20_000):
        sampler.next_id = 37 if sampler.replays_left == 0 else 40  # as if three were new
        rows = memory.storage.rows(sampler.sample(memory.storage, 3, rng))
        if (rows == [37, 38, 39]).all():
            gaps.append(since)
            since = 0
        else:
            since += 1
    assert np.mean(gaps[1:]) == pytest.approx(4.0, abs=0.15)
    assert np.var(gaps[1:]) == pytest.approx(4.0, abs=0.4)


def test_on_policy_call_cuts_episodes_into_segments_and_keeps_a_backlog():
    memory, rng = filled(60, 4, 13, 10, 5), np.random.default_rng(0)
    sampler = SegmentSampler(5, 0.0)
    assert sampler.sample(memory.storage, 1, rng).tolist() == [
        3,
        16,
        11,
        6,
    ]  # 6 ends the short first segment
    assert sampler.sample(memory.storage, 1, rng).tolist() == [26, 21, 31]
    sampler.prepare(memory.storage)
    assert sampler.replays_left == 1  # nothing is new
    add(memory, 2)
    assert len(sampler.sample(memory.storage, 6, rng)) == 6
    assert sampler.sample(memory.storage, 6, rng).tolist() == [33]


def test_the_settings_choose_the_sampler():
    def made(choices=0, **settings):
        return make_sampler(AgentConfig(**settings), Sizes(2, 1, choices), np.random.default_rng(0))

    assert type(made(buffer_size=64, learning_starts=8)) is UniformSampler
    for name, kind in (KINDS | {"ero": EROSampler, "ners": NERSSampler}).items():
        assert (
            type(
                made(
                    buffer_size=64, learning_starts=8, algorithm="ddpg", replay="none", sampler=name
                )
            )
            is kind
        )
    assert made(algorithm="sac", episode_share=0.3).episode_share == 0.3
    assert made(algorithm="acer").ratio is None
    assert made(algorithm="acer", choices=2).ratio == 4.0
    assert type(made(algorithm="ppo", choices=2)) is EpochSampler


@pytest.mark.parametrize(
    "sampler", [UniformSampler(), SegmentSampler(3, None), RankSampler(9, 1.0)]
)
def test_sampling_from_an_empty_memory_is_refused(sampler):
    with pytest.raises(ValueError, match="empty memory"):
        sampler.sample(EpisodeMemory(9, 1, 1).storage, 2, np.random.default_rng(0))
