import pytest

from rl_agent import AgentConfig
from rl_agent.replay import RememberForget
from rl_agent.replay.refer import FarWatch


def test_c_max_and_learning_rate_anneal():
    refer = RememberForget(AgentConfig(c_max_scale=4.0, annealing=5e-7, learning_rate=1e-4))
    assert refer.c_max(0) == 5.0
    assert refer.c_max(2_000_000) == pytest.approx(3.0)
    assert refer.learning_rate(2_000_000) == pytest.approx(0.5e-4)


def test_fixed_points_of_beta_are_zero_and_one():
    far = RememberForget(AgentConfig(learning_rate=0.01, annealing=0.0))
    near = RememberForget(AgentConfig(learning_rate=0.01, annealing=0.0))
    for _ in range(3000):
        far.update_beta(11, 100, 0)
        near.update_beta(10, 100, 0)
    assert far.beta == pytest.approx(0.0, abs=1e-9)
    assert near.beta == pytest.approx(1.0, abs=1e-9)
    near.update_beta(0, 100, 0)
    assert near.beta <= 1.0


def test_update_of_beta_matches_eq_12():
    refer = RememberForget(AgentConfig(learning_rate=0.1, annealing=0.0, beta=0.3))
    refer.update_beta(50, 100, 0)
    assert refer.beta == pytest.approx(0.27)
    refer.update_beta(0, 100, 0)
    assert refer.beta == pytest.approx(0.27 * 0.9 + 0.1)


@pytest.mark.parametrize(
    ("replay", "rule_1", "rule_2"),
    [
        ("refer", True, True),
        ("refer-1", True, False),
        ("refer-2", False, True),
        ("none", False, False),
    ],
)
def test_rules_in_force(replay, rule_1, rule_2):
    refer = RememberForget(AgentConfig(replay=replay))
    assert (refer.rule_1, refer.rule_2) == (rule_1, rule_2)
    refer.update_beta(100, 100, 0)
    # without rule 2 there is no penalty to weigh against
    assert (refer.beta == 1.0) == (not rule_2)
    assert refer.rho_clip == (1e3 if replay == "refer-2" else float("inf"))


def notes_of(watch, far, steps):
    """The messages for a series of far-policy shares."""
    return [
        (step, said)
        for step, share in zip(steps, far, strict=True)
        if (said := watch.note(step, share))
    ]


@pytest.mark.parametrize("replay", ["refer", "refer-1"])
def test_memory_that_stays_far_policy_is_reported_once(replay):
    watch = FarWatch(
        AgentConfig(algorithm="sac", replay=replay, buffer_size=6000, learning_starts=2000), 30_000
    )
    steps = range(1000, 31_000, 1000)
    far = [0.0] * 3 + [0.6, 0.7, 0.5] + [0.51] * 10 + [0.4] + [0.9] * 13
    ((step, said),) = notes_of(watch, far, steps)
    assert step == 10_000  # above a half since 7,000
    for part in (
        "for 3000 steps",
        "51%",
        replay,
        "agent.buffer_size (now 6000)",
        "agent.c_max_scale (now 4)",
        "(now 0.0003)",
    ):
        assert part in said


def test_long_run_reports_after_a_twentieth_of_its_steps():
    watch = FarWatch(AgentConfig(replay="refer"), 1_000_000)
    ((step, _),) = notes_of(watch, [0.8] * 100, range(1000, 101_000, 1000))
    assert step == 51_000


@pytest.mark.parametrize("replay", ["none", "refer-2"])
def test_far_policy_steps_are_not_reported_without_rule_1(replay):
    watch = FarWatch(AgentConfig(algorithm="sac", replay=replay), 30_000)
    assert notes_of(watch, [0.9] * 30, range(1000, 31_000, 1000)) == []


def test_far_policy_share_of_a_half_is_not_reported():
    watch = FarWatch(AgentConfig(replay="refer"), 30_000)
    assert notes_of(watch, [0.5] * 30, range(1000, 31_000, 1000)) == []
