from rl_agent.bench import bench_learner


def test_bench_rows_have_the_published_fields_and_positive_speeds():
    rows = bench_learner(seconds=0.3)
    assert [(row["network"], row["observation"], row["action"]) for row in rows] == [("mlp", 17, 6), ("lstm", 14, 3)]
    for row in rows:
        assert set(row) == {
            "algorithm", "network", "batch", "observation", "action", "threads", "device",
            "updates_per_second", "peer", "peer_updates_per_second",
        }  # fmt: skip
        assert min(row["updates_per_second"], row["peer_updates_per_second"]) > 0
