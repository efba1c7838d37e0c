"""The status of a run: what a training reports every second in ``status.json``, and how commands read it."""

import json
import os
import socket
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from coupling.files import read_json, reporting_damage, write_atomically

if TYPE_CHECKING:  # reading a status imports none of the parts of a training
    from coupling.run.log import Rates, RunLog
    from coupling.service.server import Server
    from coupling.settings.config import RunConfig
    from rl_agent.learner import Learner

__all__ = ["is_running", "read_status", "status_of", "steps_after_warm_up", "write_status"]

FINAL_STATES = ("finished", "stopped", "failed")


# one argument for each part of a training that the status describes
def status_of(
    run: str,
    state: str,
    epoch: int,
    config: "RunConfig",
    learner: "Learner",
    server: "Server",
    rates: "Rates",
    log: "RunLog",
    restarts: int,
) -> dict[str, Any]:
    """Return the status of a training, except for the records of its supervisor; nothing is changed.

    Parameters
    ----------
    run
        Name of the run.
    state
        ``training`` or one of the final states.
    epoch
        Number of earlier starts of the run.
    config, learner, server, rates, log
        The parts of the training.
    restarts
        Number of workers that were started again.

    Returns
    -------
    dict
        Content of ``status.json``, without ``deaths`` and ``warnings``.
    """
    steps, updates = learner.environment_steps, learner.gradient_steps
    under_way = [(e.episode_return, e.length) for e in learner.episodes_under_way()]
    recent = log.recent.summary(steps, under_way)
    return {
        "run": run,
        "state": state,
        "epoch": epoch,
        "environment_steps": steps,
        "steps_planned": config.run.steps,
        "gradient_steps": updates,
        "steps_after_warm_up": steps_after_warm_up(learner),
        "ratio": steps_after_warm_up(learner) / updates if updates else None,
        "env_steps_per_gradient_step": config.agent.steps_per_gradient,
        "episodes": log.episode_count,
        "mean_return": recent and recent.mean_return,
        "mean_length": recent and recent.mean_length,
        "recent_episodes": recent and recent.ended,
        "recent_under_way": recent and recent.under_way,
        "recent_age_steps": recent and recent.age,
        "steps_per_second": rates.environment_steps,
        "updates_per_second": rates.gradient_steps,
        "round_trips_per_second": rates.round_trips,
        "batch_size": server.counts.round_trips / server.counts.batches
        if server.counts.batches
        else None,
        "restarts": restarts,
        "refused": server.refused,
        **{
            key: value
            for key, value in vars(server.counts).items()
            if key not in ("round_trips", "batches")
        },
        "agents": {
            str(agent): int(count)
            for agent, count in enumerate(server.exchange.agent_steps)
            if count
        },
        "workers": server.liveness.summaries(),
        "absent": [
            slot for slot in range(config.workers.processes) if not server.liveness.connected(slot)
        ],
    }


def steps_after_warm_up(learner: "Learner") -> int:
    """Return the number of actions issued since learning began, for which gradient steps are due."""
    counters = learner.counters
    return counters.issued - counters.warm_up if counters.warm_up >= 0 else 0


def write_status(path: Path, status: dict[str, Any]) -> str:
    """Write the status atomically and return its JSON text."""
    text = json.dumps(
        status | {"written": time.time(), "pid": os.getpid(), "host": socket.gethostname()}
    )
    write_atomically(path, text.encode())
    return text


def read_status(path: Path) -> dict[str, Any]:
    """Read a run's status, with its age in seconds; the state is ``died`` if the process is gone without an end state.

    Raises
    ------
    RunError
        If the file is damaged.
    """
    status = read_json(path)
    with reporting_damage(path):
        running = is_running(status)
        if status["state"] not in FINAL_STATES and not running:
            status["state"] = "died"
        return status | {"age_seconds": max(0.0, round(time.time() - status["written"], 1))}


def is_running(status: dict[str, Any]) -> bool:
    """Return whether the process of a status runs, as far as is known; it may still evaluate after the training."""
    is_here = status.get("host", socket.gethostname()) == socket.gethostname()
    if not is_here:
        return status["state"] not in FINAL_STATES
    return _is_alive(status["pid"])


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:  # another user's process, so it exists
        pass
    return True
