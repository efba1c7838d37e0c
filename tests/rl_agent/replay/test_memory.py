import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from learners import v_tbc

from rl_agent.replay import Episode, EpisodeMemory, UniformSampler
from rl_agent.replay.batch import Source, gather_batch

GAMMA, SCALE = 0.9, 2.0


def make_episode(rng, length, tag, terminated=False):
    """An episode whose observations are (episode, step)."""
    steps = np.arange(length, dtype=np.float32)
    return Episode(
        observation=np.stack([np.full(length, tag, np.float32), steps], axis=1),
        action=rng.standard_normal((length, 1)).astype(np.float32),
        behaviour_mean=rng.standard_normal((length, 1)).astype(np.float32),
        behaviour_std=np.ones((length, 1), np.float32),
        reward=rng.standard_normal(length).astype(np.float32),
        value=rng.standard_normal(length).astype(np.float32),
        final_observation=np.array([tag, length], np.float32),
        final_value=float(rng.standard_normal()) * (not terminated),
        terminated=terminated,
    )


def check(memory, expected):
    """The memory holds exactly the ``expected`` episodes, with targets that equal a full recomputation."""
    assert memory.storage.steps == sum(len(e.reward) for e in expected) <= memory.storage.capacity
    assert memory.storage.episodes == len(expected)
    indices = memory.storage.indices()
    assert memory.values.n_far == np.count_nonzero(memory.values.far[indices])
    at = 0
    for episode in expected:
        length = len(episode.reward)
        own = indices[at : at + length]
        np.testing.assert_array_equal(memory.storage.observation[own], episode.observation)
        np.testing.assert_array_equal(memory.storage.action[own], episode.action)
        np.testing.assert_array_equal(memory.storage.position[own], np.arange(length))
        rows = memory.storage.rows(own)
        assert len(set(rows)) == 1
        row = rows[0]
        assert (memory.storage.start[row], memory.storage.length[row]) == (own[0], length)
        np.testing.assert_array_equal(
            memory.storage.final_observation[row], episode.final_observation
        )
        final = 0.0 if episode.terminated else np.float32(episode.final_value)
        assert memory.values.final_value[row] == final
        target = v_tbc(
            episode.reward / np.float32(SCALE),
            memory.values.value[own],
            memory.values.rho[own],
            float(final),
            GAMMA,
        )
        np.testing.assert_array_equal(memory.values.v_tbc[own], target)
        at += length


@settings(max_examples=60, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 30), st.booleans(), st.integers(0, 40)), min_size=1, max_size=40
    ),
    st.integers(0, 2**31),
)
def test_memory_always_holds_the_newest_whole_episodes(history, seed):
    rng = np.random.default_rng(seed)
    memory, expected = EpisodeMemory(50, 2, 1), []
    for tag, (length, terminated, samples) in enumerate(history):
        expected.append(make_episode(rng, length, tag, terminated))
        while sum(len(e.reward) for e in expected) > 50:
            expected.pop(0)
        memory.add(expected[-1], GAMMA, SCALE)
        if samples:
            indices = np.unique(UniformSampler().sample(memory.storage, samples, rng))
            rng.shuffle(indices)
            value, kl = rng.standard_normal((2, len(indices))).astype(np.float32)
            rho = rng.lognormal(0, 1, len(indices)).astype(np.float32)
            memory.values.refresh(indices, value, rho, kl, rho > 2.0, GAMMA, SCALE)
            np.testing.assert_array_equal(memory.values.value[indices], value)
            np.testing.assert_array_equal(memory.values.rho[indices], rho)
            np.testing.assert_array_equal(memory.values.kl[indices], kl)
        check(memory, expected)


def test_episode_table_grows_with_many_short_episodes():
    rng = np.random.default_rng(0)
    memory = EpisodeMemory(300, 2, 1)
    expected = [make_episode(rng, 1, tag) for tag in range(700)]
    for episode in expected:
        memory.add(episode, GAMMA, SCALE)
    check(memory, expected[-300:])


@pytest.mark.parametrize("length", [0, 51])
def test_episode_larger_than_the_memory_is_refused(length):
    memory = EpisodeMemory(50, 2, 1)
    with pytest.raises(ValueError, match=f"{length} steps does not fit into a memory of 50"):
        memory.add(make_episode(np.random.default_rng(0), length, 0), GAMMA, SCALE)


def filled(capacity=64, lengths=(7, 20, 3, 25, 18, 12), seed=0):
    rng = np.random.default_rng(seed)
    memory, episodes = EpisodeMemory(capacity, 2, 1), []
    for tag, length in enumerate(lengths):
        episodes.append(make_episode(rng, length, tag))
        memory.add(episodes[-1], GAMMA, SCALE)
    return memory, dict(enumerate(episodes))


def test_windows_do_not_reach_beyond_the_start_of_the_episode():
    memory, _ = filled()
    mean, per_std = np.array([1.0, 2.0], np.float32), np.array([0.5, 0.25], np.float32)
    indices, batch = gather_batch(
        Source(memory, mean, per_std, GAMMA, SCALE), memory.storage.indices(), 4
    )
    assert (np.diff(batch.lengths) <= 0).all()
    for b, place in enumerate(indices):
        tag, step = memory.storage.observation[place]
        assert batch.lengths[b] == min(step, 4) + 1
        for back in range(5):
            expected = (
                (np.array([tag, step - back]) - mean) * per_std if back <= step else np.zeros(2)
            )
            np.testing.assert_allclose(batch.windows[4 - back, b], expected)


def test_gathered_steps_have_their_own_values():
    memory, episodes = filled()
    one = np.ones(2, np.float32)
    indices, batch = gather_batch(
        Source(memory, 0 * one, one, GAMMA, SCALE), memory.storage.indices()[::-3], 2
    )
    for b, place in enumerate(indices):
        tag, step = memory.storage.observation[place].astype(int)
        episode = episodes[tag]
        assert batch.action[b] == episode.action[step]
        assert batch.behaviour_mean[b] == episode.behaviour_mean[step]
        is_last = step + 1 == len(episode.reward)
        following = (
            episode.final_value
            if is_last
            else memory.values.v_tbc[(place + 1) % memory.storage.capacity]
        )
        assert batch.q_ret[b] == pytest.approx(
            episode.reward[step] / SCALE + GAMMA * following, rel=1e-5
        )
        assert batch.v_tbc[b] == memory.values.v_tbc[place]


def test_final_windows_end_at_the_final_observation():
    memory, episodes = filled()
    one = np.ones(2, np.float32)
    rows = memory.storage.truncated_rows()
    windows, lengths, states = memory.storage.final_windows(rows, 5, 0 * one, one)
    assert states is None
    for n, row in enumerate(rows):
        tag, steps = memory.storage.final_observation[row]
        assert lengths[n] == min(len(episodes[int(tag)].reward), 4) + 1
        expected = [[tag, k] if k >= 0 else [0, 0] for k in np.arange(steps - 4, steps + 1)]
        np.testing.assert_array_equal(windows[:, n], expected)


def test_classify_counts_the_steps_outside_of_c_max():
    memory, _ = filled()
    indices = memory.storage.indices()
    memory.values.rho[indices] = np.linspace(0.0, 5.0, len(indices))
    memory.values.classify(4.0)
    rho = memory.values.rho[indices]
    np.testing.assert_array_equal(memory.values.far[indices], (rho <= 0.25) | (rho >= 4.0))
    assert memory.values.n_far == np.count_nonzero(memory.values.far[indices]) > 10


def test_uniform_sampling_is_uniform_over_steps():
    memory, _ = filled()
    indices = UniformSampler().sample(memory.storage, 60_000, np.random.default_rng(0))
    counts = np.bincount(indices, minlength=memory.storage.capacity)
    held = counts[memory.storage.indices()]
    assert held.sum() == 60_000
    expected = 60_000 / memory.storage.steps
    chi_squared = np.sum((held - expected) ** 2 / expected)
    assert chi_squared < memory.storage.steps + 5 * np.sqrt(2 * memory.storage.steps)


def test_sampling_from_an_empty_memory_is_refused():
    with pytest.raises(ValueError, match="empty memory"):
        UniformSampler().sample(EpisodeMemory(10, 2, 1).storage, 4, np.random.default_rng(0))
