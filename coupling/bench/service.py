"""Speed of the service: round trips per second and the delay that it adds to an environment step."""

import multiprocessing
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np
import zmq
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space

from coupling.errors import RunError
from coupling.launch.local import LocalLauncher
from coupling.service.experience import ExperienceLog
from coupling.service.server import Learning, Server, Terms
from coupling.service.terms import NotLearning
from coupling.wire.connection import Connection, read_connection, task_hash, write_connection
from coupling.wire.protocol import HEADER_SIZE
from coupling.wire.security import Guard, Keys, secure_client
from rl_agent.rollout.open_episodes import Decision

__all__ = ["NullLearner", "NullVectorEnv", "bench_coupling", "standard_rows"]

_TASK = "coupling.bench.service:flowsim/Null-v0"
_OBSERVATION = gym.spaces.Box(-np.inf, np.inf, (14,), np.float32)  # the sizes of the wake task
_ACTION = gym.spaces.Box(-1.0, 1.0, (3,), np.float32)
_START_TIMEOUT = 60.0  # seconds
_SIMULATED = 0.05  # seconds of an environment step in rows with the pace of a simulation
_PINGS = 60
_ENDPOINTS = {"tcp": "tcp://127.0.0.1:*", "ipc": "ipc://*"}


class NullVectorEnv(VectorEnv[Any, Any, Any]):
    """Environments that compute nothing, so that only the service is measured. Episodes last 100 steps.

    Parameters
    ----------
    num_envs
        Number of environments.
    step_seconds
        Time that a step of all environments sleeps, instead of a simulation.
    """

    metadata = {"autoreset_mode": AutoresetMode.SAME_STEP}  # noqa: RUF012

    def __init__(self, num_envs: int = 1, step_seconds: float = 0.0) -> None:
        self.num_envs = num_envs
        self.single_observation_space, self.single_action_space = _OBSERVATION, _ACTION
        self.observation_space = batch_space(_OBSERVATION, num_envs)
        self.action_space = batch_space(_ACTION, num_envs)
        self._observations = np.zeros((num_envs, 14), np.float32)
        self._zeros, self._no = np.zeros(num_envs), np.zeros(num_envs, bool)
        self._steps, self._step_seconds = 0, step_seconds

    def reset(self, *, seed: Any = None, options: Any = None) -> tuple[np.ndarray, dict[str, Any]]:
        """Start all episodes."""
        self._steps = 0
        return self._observations, {}

    def step(
        self, actions: Any
    ) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray, dict[str, Any]]:
        """Do nothing, or sleep."""
        self._steps += 1
        if self._step_seconds:
            time.sleep(self._step_seconds)
        if self._steps % 100:
            return self._observations, self._zeros, self._no, self._no, {}
        return (
            self._observations,
            self._zeros,
            self._no,
            ~self._no,
            {"final_obs": self._observations},
        )


gym.register(id="flowsim/Null-v0", vector_entry_point="coupling.bench.service:NullVectorEnv")


class NullLearner(NotLearning):
    """Learner that returns zero actions and learns nothing."""

    def __init__(self) -> None:
        self.environment_steps = self.gradient_steps = 0

    def begin(self, agents: np.ndarray, observations: np.ndarray) -> None:
        """Do nothing."""

    def decide(self, agents: np.ndarray) -> Decision:
        """Return a decision for zero actions."""
        zeros = np.zeros((len(agents), 3), np.float32)
        return Decision(agents, zeros, zeros, zeros, zeros[:, 0], zeros[:, :0], zeros, {})

    def issue(self, decision: Decision) -> np.ndarray:
        """Return zeros."""
        return decision.action

    def observe(
        self,
        agents: np.ndarray,
        rewards: np.ndarray,
        terminated: np.ndarray,
        truncated: np.ndarray,
        observations: np.ndarray,
        agent_ended: np.ndarray | None = None,
    ) -> None:
        """Count the steps."""
        self.environment_steps += len(agents)

    def abandon(self, agents: np.ndarray) -> None:
        """Do nothing."""


def bench_coupling(
    *,
    agents: int = 24,
    processes: int = 2,
    transport: str = "tcp",
    curve: bool = False,
    learning: bool = False,
    step_seconds: float = 0.0,
    seconds: float = 5.0,
) -> dict[str, Any]:
    """Measure one layout, with environments that compute nothing in worker processes.

    Parameters
    ----------
    agents, processes
        Number of environments, and of the worker processes that share them.
    transport
        ``tcp`` or ``ipc``.
    curve
        Whether the connections are encrypted.
    learning
        Whether a V-RACER learner (MLP 2x128, batch 256) chooses actions and learns, with one gradient step per
        environment step up to 24 agents and proportionally fewer beyond; otherwise actions are zero.
    step_seconds
        Duration of an environment step, in which the worker sleeps. With learning it should be long enough that the
        environments set the pace, as a simulation does; otherwise the delay includes waiting for gradient steps.
    seconds
        Duration of the measurement, after all workers have connected.

    Returns
    -------
    dict
        A row of ``flowsim bench coupling``. One action for one environment is one round trip. The delay is measured in
        the worker, from sending the STEP to receiving the ACTION. If ``step_seconds`` is positive, ``echo_p50_us`` is
        the median delay of bare ZeroMQ sockets with messages of the same size at the same pace, which is mostly the
        time that this machine takes to wake up a process.

    Raises
    ------
    RunError
        If the workers do not connect.
    """
    options = {"step_seconds": step_seconds}
    learner: Learning = _v_racer(agents) if learning else NullLearner()
    split = [len(part) for part in np.array_split(np.arange(agents), processes)]
    low, high = _ACTION.low.tolist(), _ACTION.high.tolist()
    terms = Terms(
        split, 14, low, high, task_hash(_TASK, options), lambda agent, session: agent, heartbeat=0.5
    )
    endpoint = _ENDPOINTS[transport]
    with tempfile.TemporaryDirectory(prefix="flowsim-bench-") as name:
        log = ExperienceLog(Path(name) / "experience")
        log.begin(0)
        keys = Keys.draw() if curve else None
        server = Server(learner, endpoint, terms, 2**62, log, keys)
        connection = Path(name) / "connection.json"
        where = Connection(
            server.endpoint,
            "bench",
            _TASK,
            options,
            _START_TIMEOUT,
            split,
            **keys.for_workers() if keys else {},
        )
        write_connection(connection, where)
        launcher = LocalLauncher(connection, split, Path(name) / "workers", threads=1, restarts=0)
        try:
            launcher.start()
            _warm_up(server, launcher, learning, learner)
            rate, updates = _rates(server, learner, seconds)
            middle, tail = server.liveness.delays()
        finally:
            server.close("the measurement is over")
            launcher.stop()
            log.close()
    return {
        "agents": agents,
        "processes": processes,
        "transport": transport,
        "curve": curve,
        "learning": learning,
        "step_ms": 1000 * options["step_seconds"],
        "round_trips_per_second": round(rate),
        "updates_per_second": round(updates),
        "p50_us": round(middle),
        "p99_us": round(tail),
        "echo_p50_us": _echo(processes, split[0], keys, transport, step_seconds)
        if step_seconds
        else None,
    }


def _rates(server: Server, learner: Learning, seconds: float) -> tuple[float, float]:
    """Serve for ``seconds``, and return round trips and gradient steps per second."""
    trips, updated, began = server.counts.round_trips, learner.gradient_steps, time.perf_counter()
    while (elapsed := time.perf_counter() - began) < seconds:
        server.turn()
    return (
        (server.counts.round_trips - trips) / elapsed,
        (learner.gradient_steps - updated) / elapsed,
    )


def standard_rows(say: Callable[[str], None], *, full: bool = False) -> list[dict[str, Any]]:
    """Measure the layouts of ``flowsim bench coupling``, at full speed and at the pace of a simulation.

    Parameters
    ----------
    say
        Called with a description of what is measured, before each row.
    full
        Whether to measure every number of agents with every kind of connection, instead of those that differ most.
    """
    lines: list[dict[str, Any]] = [
        {"transport": "tcp"},
        {"transport": "ipc"},
        {"transport": "tcp", "curve": True},
    ]
    sizes: list[dict[str, Any]] = [
        {"agents": agents, "processes": min(2, agents)} for agents in (1, 24, 96, 256)
    ]
    one, usual, _, many = sizes
    fast = [one | lines[0], *(usual | line for line in lines), many | lines[0]]
    slow: dict[str, Any] = {"step_seconds": _SIMULATED}
    paced = [usual | lines[0] | slow, usual | lines[0] | slow | {"learning": True}]
    if full:
        fast = [size | line for size in sizes for line in lines] + [
            lines[0] | {"agents": 24, "processes": 24}
        ]
        paced = paced[:1] + [
            size | line | slow | {"learning": True} for size in sizes for line in lines
        ]
    rows = []
    for number, layout in enumerate(fast + paced, 1):
        words = ", ".join(f"{key} {value}" for key, value in layout.items())
        say(f"{number}/{len(fast + paced)}: {words}")
        rows.append(bench_coupling(**layout))
    return rows


def _echo(
    pingers: int, environments: int, keys: Keys | None, transport: str, pause: float
) -> float:
    """Return the median delay of a bare echo in microseconds, with as many processes and messages of the same sizes."""
    step, action = (
        HEADER_SIZE + environments * (8 + 4 * 14 + 1),
        bytes(HEADER_SIZE + environments * 4 * 3),
    )
    context = zmq.Context()
    with (
        context.socket(zmq.ROUTER) as router,
        tempfile.TemporaryDirectory(prefix="flowsim-echo-") as folder,
    ):
        guard = Guard(router, _ENDPOINTS[transport], keys)
        router.bind(_ENDPOINTS[transport])
        endpoint, secrets = router.get_string(zmq.LAST_ENDPOINT), keys.for_workers() if keys else {}
        where = Connection(endpoint, "echo", _TASK, {}, 1.0, [environments], **secrets)
        file = Path(folder) / "connection.json"
        write_connection(file, where)
        spawn = multiprocessing.get_context("spawn")
        answers = spawn.SimpleQueue()
        processes = [
            spawn.Process(target=_ping, args=(file, step, pause, answers)) for _ in range(pingers)
        ]
        for process in processes:
            process.start()
        while any(process.is_alive() for process in processes):
            guard.attend()
            if router.poll(20):
                route, _ = router.recv_multipart()
                router.send_multipart((route, action))
        guard.close()
    context.term()
    if any(process.exitcode for process in processes):
        raise RunError("a process that measured the echo failed")
    return round(float(np.mean([answers.get() for _ in processes])))


def _ping(
    file: Path, size: int, pause: float, answers: "multiprocessing.SimpleQueue[float]"
) -> None:
    """Send messages of ``size`` bytes with pauses between them, and report the median delay of the answers."""
    connection, delays = read_connection(file), []
    context = zmq.Context()
    with context.socket(zmq.DEALER) as dealer:
        secure_client(dealer, connection)
        dealer.connect(connection.endpoint)
        for _ in range(_PINGS):
            time.sleep(pause)
            began = time.perf_counter()
            dealer.send(bytes(size))
            if not dealer.poll(int(1000 * _START_TIMEOUT)):
                raise RunError("the echo server did not answer")
            dealer.recv()
            delays.append(1e6 * (time.perf_counter() - began))
    answers.put(float(np.median(delays)))


def _warm_up(server: Server, launcher: LocalLauncher, learning: bool, learner: Learning) -> None:
    """Serve until every agent has connected and, with learning, compilation has finished."""
    began = time.monotonic()
    while not (
        server.exchange.agent_steps.all() and (not learning or learner.gradient_steps > 200)
    ):
        server.turn()
        for death in launcher.supervise():
            raise RunError(str(death))
        if time.monotonic() - began > _START_TIMEOUT:
            raise RunError(
                f"not all workers of the measurement had connected after {_START_TIMEOUT:g} s"
            )


def _v_racer(agents: int) -> Learning:
    from rl_agent.config import AgentConfig
    from rl_agent.learner import Learner

    ratio = max(1.0, agents / 24)
    start = min(2400, 100 * agents)  # one episode per agent
    config = AgentConfig(
        learning_starts=start,
        buffer_size=2**15,
        batch_size=256,
        hidden=(128, 128),
        env_steps_per_gradient_step=ratio,
    )
    return Learner(config, _OBSERVATION, _ACTION, agents=agents, seed=0)
