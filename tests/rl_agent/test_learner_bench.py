from coupling.bench import learner as bench
from coupling.bench.learner import CASES, SAMPLERS, bench_learner


def test_bench_rows_have_the_published_fields_and_positive_speeds(monkeypatch):
    monkeypatch.setattr(bench, "FILLED", {"buffer_size": 2000, "learning_starts": 600})
    monkeypatch.setattr(bench, "EPISODE_STEPS", 30)
    monkeypatch.setattr(bench, "HOSTS", ("td3", "dqn"))
    said: list[str] = []
    rows = [
        row for row in bench_learner(said.append, full=True, seconds=0.02) if row["device"] == "cpu"
    ]
    assert [line.split()[1].rstrip(",") for line in said[: len(CASES)]] == [
        case[0] for case in CASES
    ]
    rows, sampled = rows[: len(CASES)], rows[len(CASES) :]
    assert [
        (row["algorithm"], row["network"], row["observation"], row["action"]) for row in rows
    ] == list(CASES)
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
        if row["algorithm"] in ("vracer", "ddpg", "naf", "acer", "tis", "a3c"):
            assert (row["peer"] is None) == (row["algorithm"] != "vracer")
        assert row["peer"] is None or row["peer_updates_per_second"] > 0
