"""The recent return of a run: its latest episodes, those under way, and their age, against values computed by hand."""

import numpy as np
import pytest

from coupling.run.folder import RunFolder
from coupling.run.log import RunLog
from coupling.run.recent import Ended, Recent, RecentEpisodes


def of(steps, *episodes):
    recent = RecentEpisodes(steps)
    for episode in episodes:
        recent.add(Ended(*episode))
    return recent


def test_no_summary_before_the_first_episode_ends():
    assert of(10_000).summary(500, [(3.0, 7)]) is None


def test_old_episodes_do_not_count():
    # a twentieth of 40,000 steps is 2,000
    recent = of(
        40_000, (100, 1.0, 10), (18_000, 50.0, 100), (19_999, 60.0, 120), (20_000, 70.0, 140)
    )
    assert recent.summary(20_500, []) == Recent(60.0, 120.0, ended=3, under_way=0, age=2_500)
    recent.add(Ended(20_001, 80.0, 160))  # that of step 18,000 is too old now
    assert recent.summary(20_500, []) == Recent(70.0, 140.0, ended=3, under_way=0, age=501)


def test_short_runs_look_a_thousand_steps_back():
    recent = of(2_000, (1, 5.0, 1), (1_001, 7.0, 3))
    assert recent.summary(1_001, []).ended == 2
    recent.add(Ended(1_002, 9.0, 5))
    assert recent.summary(1_002, []) == Recent(8.0, 4.0, ended=2, under_way=0, age=1)


def test_at_most_a_hundred_episodes_count():
    recent = of(1_000_000, *((step, float(step), 1) for step in range(1, 251)))
    assert recent.summary(250, []) == Recent(200.5, 1.0, ended=100, under_way=0, age=99)


def test_last_episodes_stay_until_others_end():
    """Agents that begin together end together, with long gaps in between, which the age shows."""
    recent = of(60_000, *((12_000, -float(k), 500) for k in range(24)))
    assert recent.summary(23_000, [(-1.0, 458)] * 24) == Recent(-11.5, 500.0, 24, 0, age=11_000)


def test_an_episode_under_way_counts_once_it_is_longer():
    """Episodes of the newest policy last twenty times as long as the ended ones: 589 was once shown, not 9,342."""
    ended = [(step, 589.0, 60) for step in range(900, 1_000, 10)]
    under_way = [(9_342.0, 1_000), (4_000.0, 430), (20.0, 2), (589.0, 60)]
    found = of(20_000, *ended).summary(1_500, under_way)
    assert found == Recent(
        pytest.approx((10 * 589.0 + 9_342.0 + 4_000.0) / 12),
        pytest.approx((10 * 60 + 1_000 + 430) / 12),
        ended=10,
        under_way=2,
        age=600,
    )


def test_resumed_run_shows_the_same_summary(tmp_path):
    folder = RunFolder(tmp_path)
    rng = np.random.default_rng(0)
    rows = [
        {
            "environment_steps": 40 * k,
            "agent": 0,
            "return": float(rng.normal()),
            "length": int(rng.integers(1, 40)),
            "terminated": 0,
        }
        for k in range(1, 200)
    ]
    log = RunLog(folder, 0, 0, 50_000)
    log.episodes(rows)
    shown = log.recent.summary(8_000, [(1.0, 39)])
    counted = [row for row in rows if row["environment_steps"] >= 199 * 40 - 2_500]
    assert shown.ended == len(counted) == 63
    returns = [row["return"] for row in counted] + [1.0]
    assert shown.mean_return == pytest.approx(np.mean(returns), rel=1e-12)
    again = RunLog(folder, 8_000, 199, 50_000)
    assert again.recent.summary(8_000, [(1.0, 39)]) == shown
