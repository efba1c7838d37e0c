"""The metrics, read by Prometheus' own parser."""

from prometheus_client.parser import text_string_to_metric_families

from coupling.pages.metrics import prometheus_text

STATUS = {
    "run": 'wake "one"',
    "state": "training",
    "environment_steps": 2400,
    "mean_return": None,
    "steps_per_second": 12.5,
    "repeats": 3,
    "workers": [
        {"slot": 0, "last_sign_of_life_seconds": 0.5, "step_seconds": 0.0, "delay_p50_us": 300.0, "delay_p99_us": 900.0,
         "steps": 7, "starts": 2, "resends": 1, "failures": 0},
    ],
}  # fmt: skip


def test_metrics_are_read_by_the_prometheus_parser():
    families = {
        family.name: family for family in text_string_to_metric_families(prometheus_text(STATUS))
    }
    run = {"run": 'wake "one"'}
    values = {
        name: (family.type, family.samples[0].labels, family.samples[0].value)
        for name, family in families.items()
    }
    assert values["flowsim_up"] == ("gauge", run, 1.0)
    assert values["flowsim_environment_steps"] == ("counter", run, 2400.0)
    assert values["flowsim_steps_per_second"] == ("gauge", run, 12.5)
    assert values["flowsim_repeats"] == ("counter", run, 3.0)
    assert values["flowsim_worker_starts"] == ("counter", run | {"worker": "0"}, 2.0)
    assert "flowsim_mean_return" not in values  # not known yet
