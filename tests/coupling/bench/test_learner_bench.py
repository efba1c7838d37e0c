from coupling.bench import learner as bench
from coupling.bench.learner import (
    SAMPLERS,
    all_cases,
    bench_learner,
    hosts_of_samplers,
    usual_cases,
)


def test_bench_rows_have_the_published_fields_and_positive_speeds(monkeypatch):
    monkeypatch.setattr(bench, "FILLED", {"buffer_size": 2000, "learning_starts": 600})
    monkeypatch.setattr(bench, "EPISODE_STEPS", 30)
    monkeypatch.setattr(bench, "hosts_of_samplers", lambda full: ["td3", "dqn"])
    cases = all_cases()
    said: list[str] = []
    rows = [
        row for row in bench_learner(said.append, full=True, seconds=0.02) if row["device"] == "cpu"
    ]
    assert [line.split()[1].rstrip(",") for line in said[: len(cases)]] == [
        case[0] for case in cases
    ]
    rows, sampled = rows[: len(cases)], rows[len(cases) :]
    assert [
        (row["algorithm"], row["network"], row["observation"], row["action"]) for row in rows
    ] == list(cases)
    assert [(row["algorithm"], row["sampler"]) for row in sampled] == [
        (h, s) for h in ("td3", "dqn") for s in SAMPLERS
    ]
    assert all(row["batch"] == 128 and row["updates_per_second"] > 0 for row in sampled)
    assert [row["algorithm"] for row in rows].count("vracer") == 2
    for row in rows:
        assert set(row) == {
            "algorithm", "network", "sampler", "batch", "observation", "action", "threads", "device",
            "updates_per_second", "peer", "peer_updates_per_second",
        }  # fmt: skip
        assert row["updates_per_second"] > 0
        if row["algorithm"] in (
            "vracer",
            "ddpg",
            "naf",
            "acer",
            "tis",
            "trust-tis",
            "a3c",
            "trust-a3c",
        ):
            assert (row["peer"] is None) == (row["algorithm"] != "vracer")
        assert row["peer"] is None or row["peer_updates_per_second"] > 0


def test_cases_of_the_usual_and_the_full_benchmark():
    assert set(usual_cases()) < set(all_cases())
    assert ("vracer", "lstm", 14, 3) in usual_cases()
    assert {case[0] for case in all_cases()} - {case[0] for case in usual_cases()} == {
        "dqn",
        "rainbow",
    }
    assert {case[0] for case in all_cases() if case[1] == "lstm"}.isdisjoint(
        {"ppo", "a3c", "dqn", "rainbow"}
    )
    assert hosts_of_samplers(full=False) == ["sac", "td3"]
    assert set(hosts_of_samplers(full=True)) == {
        "sac",
        "td3",
        "dqn",
        "rainbow",
        "ddpg",
        "naf",
        "vracer",
    }
