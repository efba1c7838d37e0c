from fractions import Fraction

import pytest

from rl_agent import AgentConfig
from rl_agent.schedule import Counters, Iterations, Ratio


def ratio(steps, agents=4, **settings):
    config = AgentConfig(
        algorithm="vracer", env_steps_per_gradient_step=steps,
        learning_starts=100, buffer_size=1000, **settings
    )  # fmt: skip
    return Ratio(config, agents)


@pytest.mark.parametrize("steps", [0.5, 1.0, 3.0, 4.0])
def test_after_warm_up_gradient_steps_keep_the_ratio_exactly(steps):
    schedule, counters = ratio(steps), Counters(issued=120, warm_up=120)
    for _ in range(500):
        counters.issued += 1
        counters.gradient_steps += schedule.updates_due(counters, 0)
        owed = (counters.issued - 120) / Fraction(steps)
        assert 0 <= owed - counters.gradient_steps < 1


def test_no_updates_are_due_before_learning_starts_or_after_revoked_actions():
    schedule = ratio(1.0)
    assert schedule.updates_due(Counters(issued=500), 0) == 0
    assert schedule.may_act(Counters(issued=500), 0)
    assert schedule.updates_due(Counters(issued=498, warm_up=490, gradient_steps=10), 0) == 0


def test_agents_wait_while_more_than_one_update_per_agent_is_due():
    schedule = ratio(1.0, agents=4)
    assert schedule.may_act(Counters(issued=104, warm_up=100), 0)
    assert not schedule.may_act(Counters(issued=105, warm_up=100), 0)


def test_learning_begins_once_and_sweeps_run_every_thousand_gradient_steps():
    schedule = ratio(1.0)
    assert not schedule.begins_learning(Counters(), 99)
    assert schedule.begins_learning(Counters(), 100)
    assert not schedule.begins_learning(Counters(warm_up=100), 200)
    assert schedule.sweeps(Counters(gradient_steps=3000))
    assert not schedule.sweeps(Counters(gradient_steps=2999))


def test_fragment_length_is_that_of_the_settings():
    assert ratio(1.0).fragment_length is None
    assert ratio(1.0, fragment_length=20).fragment_length == 20


def test_iteration_begins_at_its_horizon_and_ends_with_its_last_batch():
    config = AgentConfig(algorithm="ppo", horizon=100, first_horizon=150, batch_size=10)
    schedule, before, later = Iterations(config, 3), Counters(), Counters(warm_up=150)
    assert Iterations.capacity(config, 3) == 2 * (150 + 3)
    assert not schedule.begins_iteration(before, 0, 149)
    assert schedule.begins_iteration(before, 0, 150)
    assert schedule.begins_iteration(later, 0, 100)
    assert not schedule.begins_iteration(later, 1, 100)
    assert (schedule.updates_due(later, 7), schedule.may_act(later, 7)) == (7, False)
    assert schedule.ends_iteration(later, 0)
    assert not schedule.ends_iteration(later, 1)
