"""A run's status in the text format of Prometheus."""

from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

__all__ = ["prometheus_text"]

_GAUGES = {
    "steps_planned": "Planned environment steps of the run.",
    "mean_return": "Mean return of the latest episodes, including unfinished ones that are already longer.",
    "mean_length": "Mean length of these episodes.",
    "recent_episodes": "Number of these episodes that are finished.",
    "recent_under_way": "Number of these episodes that are unfinished.",
    "recent_age_steps": "Environment steps since the first of the finished ones ended.",
    "steps_per_second": "Recent environment steps per second.",
    "updates_per_second": "Recent gradient steps per second.",
    "round_trips_per_second": "Recent actions sent per second.",
    "batch_size": "Actions per forward pass of the policy.",
    "written": "Time when the status was written, in seconds since 1970.",
}
_COUNTERS = {
    "environment_steps": "Environment steps received.",
    "gradient_steps": "Gradient steps done.",
    "episodes": "Episodes completed.",
    "epoch": "Number of earlier starts of the run.",
    "restarts": "Restarts of workers that had died.",
    "diverged": "Episodes that ended because their simulation diverged.",
    "failed": "Episodes that ended because their environment failed.",
    "unlearnable": "Steps that cannot be learned from.",
    "repeats": "Repeated messages that were answered as before.",
    "pauses": "Messages repeated before they were answered.",
    "stale": "Messages that arrived after a later one of their session.",
    "forks": "Messages with the number of a different message: two processes used one session.",
    "recovered": "Last messages of dead workers, sent by their replacements.",
    "refused": "Peers whose handshake failed.",
    "strangers": "Messages of unknown sessions.",
    "violations": "Frames that violated the protocol.",
    "unheard": "Ignored frames from peers that had violated the protocol.",
}
_OF_WORKERS: dict[str, tuple[type[GaugeMetricFamily] | type[CounterMetricFamily], str]] = {
    "last_sign_of_life_seconds": (
        GaugeMetricFamily,
        "Seconds since the worker's last sign of life.",
    ),
    "step_seconds": (GaugeMetricFamily, "Seconds that its current step has taken so far."),
    "delay_p50_us": (GaugeMetricFamily, "Median microseconds from its STEP to its ACTION."),
    "delay_p99_us": (
        GaugeMetricFamily,
        "99th percentile of the microseconds from its STEP to its ACTION.",
    ),
    "steps": (CounterMetricFamily, "Steps of its process."),
    "starts": (CounterMetricFamily, "Processes started for this worker."),
    "resends": (CounterMetricFamily, "Messages that its process resent."),
    "failures": (CounterMetricFamily, "Environments of its process that failed."),
}


def prometheus_text(status: dict[str, Any]) -> str:
    """Return the numbers of a status as metrics ``flowsim_...``, labelled with the run and the worker.

    Parameters
    ----------
    status
        Status as returned by :func:`coupling.run.status.read_status`.
    """
    registry = CollectorRegistry()
    registry.register(_Status(status))
    return generate_latest(registry).decode()


class _Status(Collector):
    """Collector of the metric families of a status; a number that is not known yet has no sample."""

    def __init__(self, status: dict[str, Any]) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        """Yield the metric families of the run and of its workers."""
        status = self._status
        up = GaugeMetricFamily("flowsim_up", "Whether the run is running.", labels=["run"])
        up.add_metric([status["run"]], status["state"] == "training")
        yield up
        for names, kind in ((_GAUGES, GaugeMetricFamily), (_COUNTERS, CounterMetricFamily)):
            for name, about in names.items():
                if (value := status.get(name)) is not None:
                    family = kind(f"flowsim_{name}", about, labels=["run"])
                    family.add_metric([status["run"]], value)
                    yield family
        for name, (kind, about) in _OF_WORKERS.items():
            family = kind(f"flowsim_worker_{name}", about, labels=["run", "worker"])
            for worker in status["workers"]:
                if worker[name] is not None:
                    family.add_metric([status["run"], str(worker["slot"])], worker[name])
            yield family
