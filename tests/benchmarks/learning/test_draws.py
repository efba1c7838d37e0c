"""How unevenly a sampler draws, read from the checkpoint of a real learner."""

import importlib

import numpy as np
import pytest
import torch

from coupling.bench.learner import warm_learner
from rl_agent.config import AgentConfig
from rl_agent.replay.samplers.score_network import ScoreNetwork


@pytest.fixture
def draws():
    return importlib.import_module("benchmarks.learning.suites.draws")


def a_checkpoint(sampler, folder):
    config = AgentConfig(
        algorithm="sac",
        sampler=sampler,
        hidden=(8,),
        buffer_size=2**13,
        learning_starts=4096,
        batch_size=256,
    )
    learner = warm_learner(config, 3, 2)
    for _ in range(60):
        learner.update()
    learner.save(folder / "checkpoint")
    return learner, folder / "checkpoint"


@pytest.mark.parametrize("sampler", ["proportional", "ners"])
def test_effective_share_equals_that_of_many_draws(draws, sampler, tmp_path):
    """The effective share is 1 / (n sum p^2), estimated here from the sampled frequencies p of n steps."""
    learner, checkpoint = a_checkpoint(sampler, tmp_path)
    found = draws.draws_of(checkpoint)
    storage, rng, count = learner.memory.storage, np.random.default_rng(0), 4000
    drawn = np.zeros(storage.capacity)
    for _ in range(count):
        np.add.at(drawn, learner.sampler.sample(storage, 256, rng), 1.0)
    p = drawn / drawn.sum()
    # draws from equal ranges scatter less than independent ones, whose own scatter adds 1 / draws to sum p^2
    assert found["effective_share"] == pytest.approx(1.0 / (storage.steps * (p**2).sum()), rel=0.02)
    assert (found["effective_share"] < 0.9) == (sampler == "proportional")
    assert found["scores"] == sorted(found["scores"])


def test_ero_scores_are_separated_from_new_steps(draws, tmp_path):
    learner, checkpoint = a_checkpoint("ero", tmp_path)
    found, scores = (
        draws.draws_of(checkpoint),
        learner.sampler.score[learner.memory.storage.indices()],
    )
    assert found["not_drawn_yet"] == pytest.approx((scores == 1.0).mean(), abs=1e-5)
    assert found["scores"][1] == pytest.approx(np.median(scores[scores < 1.0]), abs=1e-5)
    assert 0.0 < found["not_drawn_yet"] < 0.5


def test_uniform_sampler_has_no_statistics(draws, tmp_path):
    _, checkpoint = a_checkpoint("uniform", tmp_path)
    assert draws.draws_of(checkpoint) is None


def test_table_gives_the_range_over_the_seeds(draws):
    replay = importlib.import_module("benchmarks.learning.replay")
    plan = replay.read_plan(replay.ROOT / "benchmarks" / "learning" / "replay.yaml")
    jobs = replay.jobs_of("sac", plan["sac"])
    mine = [job for job in jobs if job.task == "Hopper-v5" and job.method == "NERS"]
    of = {
        "updates": 7,
        "scores": [0.25, 0.5, 0.75],
        "not_drawn_yet": 0.125,
        "effective_share": 0.5,
    }
    known = {mine[0].name: of, mine[1].name: of | {"updates": 9, "effective_share": 0.75}}
    assert draws.table_of_draws(known, jobs)[2:] == [
        "| Hopper-v5 | NERS | 2 | 7 to 9 | 0.250 | 0.750 | 0.125 | 0.500 to 0.750 |"
    ]


def test_published_network_has_as_many_weights_as_ours():
    published = importlib.import_module("benchmarks.learning.ners_as_published")
    theirs = sum(weight.numel() for weight in published.Scores().parameters())
    ours = ScoreNetwork(published.FEATURES, np.random.default_rng(0))
    assert theirs == len(ours.weights)
    assert published.spread(torch.full((8,), 0.3)) == {
        "low": pytest.approx(0.3),
        "high": pytest.approx(0.3),
        "effective_share": 1.0,
    }
