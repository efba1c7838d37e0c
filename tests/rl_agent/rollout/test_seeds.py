"""Seeds of episodes: no two purposes share one, and every word of an index matters."""

import itertools

import numpy as np
import pytest

from rl_agent.rollout.seeds import EVALUATION_SEED, Purpose, episode_seed

PAIRS = list(itertools.combinations(Purpose, 2))


@pytest.mark.parametrize(("one", "other"), PAIRS)
def test_two_purposes_have_no_seed_in_common(one, other):
    """By construction, and for fifty runs of 24 agents in eight sessions and as many evaluations."""
    assert not range(max(one.value.start, other.value.start), min(one.value.stop, other.value.stop))
    runs = [0, 1, 2, 10**6, 2**31, 2**32, 2**63 - 1, *range(3, 46)]

    def many(purpose):
        by_agent = itertools.product(runs, range(24), range(8))
        seeds = {episode_seed(purpose, run, agent, session) for run, agent, session in by_agent}
        return seeds | {episode_seed(purpose, run, k) for run in runs for k in range(192)}

    first, second = many(one), many(other)
    assert not first & second
    assert min(first) in one.value
    assert max(first) in one.value


def test_small_user_seeds_are_training_seeds():
    """``env.reset(seed=0)``, a loop over small numbers, and numbers of 31 bits never give an evaluation's episode."""
    assert all(seed in Purpose.TRAINING.value for seed in (0, 1, 10**6, 2**31 - 1))
    assert min(episode_seed(Purpose.EVALUATION, 0, k) for k in range(1000)) >= 2**31


def test_index_differs_from_the_same_index_with_a_trailing_zero():
    """``SeedSequence((0, k))`` and ``SeedSequence((0, k, 0))`` do not distinguish them."""
    same = [np.random.SeedSequence(words).generate_state(1)[0] for words in ((0, 3), (0, 3, 0))]
    assert same[0] == same[1]
    for purpose, k in itertools.product(Purpose, range(100)):
        longer = {episode_seed(purpose, 0, *index) for index in ((), (k,), (k, 0), (k, 0, 0))}
        assert len(longer) == 4


def test_episodes_of_an_evaluation_differ():
    for seed in range(20):
        assert len({episode_seed(Purpose.EVALUATION, seed, k) for k in range(1000)}) == 1000


def test_seed_values_do_not_change():
    """Published numbers belong to these initial conditions."""
    first = [episode_seed(Purpose.EVALUATION, EVALUATION_SEED, k) for k in range(3)]
    assert first == [3035254190, 2737077522, 2975896443]
