"""A run's status in the text format that Prometheus reads."""

from collections.abc import Iterator
from typing import Any

__all__ = ["prometheus_text"]

_GAUGES = {
    "steps_planned": "Environment steps that the run is to do.",
    "mean_return": "Mean return of the last hundred episodes.",
    "mean_length": "Mean length of the last hundred episodes.",
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
_OF_WORKERS = {
    "last_sign_of_life_seconds": ("gauge", "Seconds since the worker's last sign of life."),
    "step_seconds": ("gauge", "How long its step in progress has taken."),
    "delay_p50_us": ("gauge", "Median microseconds from its STEP to its ACTION."),
    "delay_p99_us": ("gauge", "99th percentile of the same."),
    "steps": ("counter", "Steps of its process."),
    "starts": ("counter", "Processes that it has had."),
    "resends": ("counter", "Messages that its process sent again."),
    "failures": ("counter", "Environments of its process that failed."),
}


def prometheus_text(status: dict[str, Any]) -> str:
    """Return the numbers of a status as metrics ``flowsim_...``, labelled with the run and the worker.

    Parameters
    ----------
    status
        As of :func:`coupling.run.log.read_status`.
    """
    return "".join(_lines(status))


def _lines(status: dict[str, Any]) -> Iterator[str]:
    run = f'run="{_escaped(status["run"])}"'
    yield from _family("up", "gauge", "Whether the run goes on.", [(run, float(status["state"] == "training"))])
    for names, kind in ((_GAUGES, "gauge"), (_COUNTERS, "counter")):
        for name, about in names.items():
            yield from _family(name, kind, about, [(run, status.get(name))])
    for name, (kind, about) in _OF_WORKERS.items():
        samples = [(f'{run},worker="{worker["slot"]}"', worker[name]) for worker in status["workers"]]
        yield from _family(f"worker_{name}", kind, about, samples)


def _family(name: str, kind: str, about: str, samples: list[tuple[str, float | None]]) -> Iterator[str]:
    name = f"flowsim_{name}_total" if kind == "counter" else f"flowsim_{name}"
    known = [(labels, value) for labels, value in samples if value is not None]
    if known:
        yield f"# HELP {name} {about}\n# TYPE {name} {kind}\n"
    for labels, value in known:
        yield f"{name}{{{labels}}} {float(value)!r}\n"


def _escaped(text: str) -> str:
    return text.replace("\\", r"\\").replace('"', r"\"").replace("\n", r"\n")
