"""A run's status in the text format that Prometheus reads."""

from collections.abc import Iterator
from typing import Any

from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

__all__ = ["prometheus_text"]

_GAUGES = {
    "steps_planned": "Environment steps that the run is to do.",
    "mean_return": "Mean return of the latest episodes, those under way that are longer counted so far.",
    "mean_length": "Mean length of the same.",
    "recent_episodes": "How many of these episodes ended.",
    "recent_under_way": "How many of these episodes are under way.",
    "recent_age_steps": "Environment steps since the first of those that ended did.",
    "steps_per_second": "Environment steps per second, lately.",
    "updates_per_second": "Gradient steps per second, lately.",
    "round_trips_per_second": "Actions given per second, lately.",
    "batch_size": "Actions given per inference.",
    "written": "When the status was written, seconds since 1970.",
}
_COUNTERS = {
    "environment_steps": "Environment steps taken in.",
    "gradient_steps": "Gradient steps done.",
    "episodes": "Episodes completed.",
    "epoch": "Times that the run was started before.",
    "restarts": "Workers started again after their death.",
    "diverged": "Episodes that ended because their simulation blew up.",
    "failed": "Episodes that ended because their environment failed.",
    "unlearnable": "Steps that cannot be learned from.",
    "repeats": "Messages that came again and were answered as before.",
    "pauses": "Messages that came again before they were answered.",
    "stale": "Messages that came after a later one of their session.",
    "forks": "Messages whose number another message had: two processes spoke for one session.",
    "recovered": "Last messages of dead workers that their successors brought.",
    "refused": "Peers that did not get through the handshake.",
    "strangers": "Messages of sessions that are not known.",
    "violations": "Frames that broke the protocol.",
    "unheard": "Later frames of those who had sent such.",
}
_OF_WORKERS: dict[str, tuple[type[GaugeMetricFamily] | type[CounterMetricFamily], str]] = {
    "last_sign_of_life_seconds": (
        GaugeMetricFamily,
        "Seconds since the worker's last sign of life.",
    ),
    "step_seconds": (GaugeMetricFamily, "How long its step in progress has taken."),
    "delay_p50_us": (GaugeMetricFamily, "Median microseconds from its STEP to its ACTION."),
    "delay_p99_us": (GaugeMetricFamily, "99th percentile of the same."),
    "steps": (CounterMetricFamily, "Steps of its process."),
    "starts": (CounterMetricFamily, "Processes that it has had."),
    "resends": (CounterMetricFamily, "Messages that its process sent again."),
    "failures": (CounterMetricFamily, "Environments of its process that failed."),
}


def prometheus_text(status: dict[str, Any]) -> str:
    """Return the numbers of a status as metrics ``flowsim_...``, labelled with the run and the worker.

    Parameters
    ----------
    status
        As of :func:`coupling.run.log.read_status`.
    """
    registry = CollectorRegistry()
    registry.register(_Status(status))
    return generate_latest(registry).decode()


class _Status(Collector):
    """The families of a status; a number that is not known yet has no sample."""

    def __init__(self, status: dict[str, Any]) -> None:
        self._status = status

    def collect(self) -> Iterator[Metric]:
        """Yield the families of the run, and of its workers."""
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
