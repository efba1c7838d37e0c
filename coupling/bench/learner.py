"""Speed of the learner: complete gradient steps per second.

A row's ``updates_per_second`` counts whole calls of ``Learner.update``: sampling, gathering, gradient, Adam, refresh of
V and rho, backward sweeps. V-RACER is compared with plain PyTorch, which computes only the gradient step on a fixed
batch: ``torch.nn`` modules, ``torch.distributions``, autograd and fused Adam, with the same number of threads and on
the same device. TD3, SAC, PPO and DQN are compared with those of stable-baselines3, if it is installed, with the same
networks and batch. Rows with a sampler have a batch of 128; the one with ``uniform`` is the reference for the cost of
the others.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, Literal

import gymnasium
import numpy as np
import torch
from pydantic import ValidationError

from coupling.bench.sb3 import measure_sb3, sb3_is_available
from rl_agent.config import (
    AgentConfig,
    OnPolicyConfig,
    Sampler,
    SamplesSteps,
    TwoCritics,
    algorithms,
)
from rl_agent.learner import Learner

__all__ = ["bench_learner", "measure_peer", "measure_updates", "warm_learner"]

AGENTS = 24
EPISODE_STEPS = 400
SAMPLERS: tuple[Sampler, ...] = ("uniform", "proportional", "rank", "ero", "ners")
SAMPLED_BATCH = 128
Case = tuple[str, Literal["mlp", "lstm"], int, int]
"""Algorithm, network, observation size and action size of a row."""
FILLED: dict[str, Any] = {"buffer_size": 2**15, "learning_starts": 2**14}
PEER = f"PyTorch {torch.__version__.split('+')[0]}, autograd and fused Adam, gradient only"
DEVICES: tuple[Literal["cpu"], Literal["cuda"]] = ("cpu", "cuda")


def bench_learner(
    say: Callable[[str], None],
    *,
    full: bool = False,
    seconds: float = 4.0,
    threads: int = 1,
    devices: tuple[Literal["cpu", "cuda"], ...] | None = None,
    cases: tuple[Case, ...] | None = None,
) -> list[dict[str, Any]]:
    """Measure the learner and the implementation that it is compared with.

    Parameters
    ----------
    say
        Called with a description of what is measured, before each row.
    full
        Whether to measure all algorithms and their LSTMs, instead of those for continuous actions and V-RACER's LSTM,
        and samplers with all algorithms that support them, instead of with SAC and TD3 only.
    seconds
        Time spent on each measurement.
    threads
        Threads of the linear algebra.
    devices
        Devices; by default the CPU, and a CUDA device if there is one.
    cases
        Rows; by default those of ``usual_cases``, or of ``all_cases`` if ``full`` is true.

    Returns
    -------
    list of dict
        One row per case and device: ``algorithm``, ``network``, ``sampler``, ``batch``, ``observation``, ``action``,
        ``threads``, ``device``, ``updates_per_second``, ``peer``, ``peer_updates_per_second`` (``None`` without a
        peer). If the CPU is measured, one row for each algorithm and sampler follows.
    """
    rows: list[dict[str, Any]] = []
    devices = devices or (DEVICES if torch.cuda.is_available() else DEVICES[:1])
    cases = cases or (all_cases() if full else usual_cases())
    for device in devices:
        for algorithm, network, observation, action in cases:
            say(f"{len(rows) + 1}/{len(devices) * len(cases)}: {algorithm}, {network}, {device}")
            is_on_policy = issubclass(algorithms()[algorithm], OnPolicyConfig)
            memory: dict[str, Any] = {} if is_on_policy else FILLED
            config = AgentConfig(
                algorithm=algorithm, network=network, threads=threads, device=device, **memory
            )
            rows.append(
                _row(
                    config,
                    observation,
                    action,
                    seconds,
                    _peer(config, observation, action, seconds),
                )
            )
    for algorithm in hosts_of_samplers(full=full) if "cpu" in devices else ():
        for sampler in SAMPLERS:
            say(f"{algorithm}, {sampler}, cpu")
            config = AgentConfig(
                algorithm=algorithm,
                sampler=sampler,
                replay="none",
                batch_size=SAMPLED_BATCH,
                threads=threads,
                **FILLED,
            )
            rows.append(_row(config, 17, 6, seconds, (None, None)))
    return rows


def hosts_of_samplers(*, full: bool) -> list[str]:
    """Return the algorithms with which samplers are measured: all that support them, or SAC and TD3."""
    takes = SamplesSteps if full else TwoCritics
    return [name for name, kind in algorithms().items() if issubclass(kind, takes)]


def usual_cases() -> tuple[Case, ...]:
    """Return the algorithms for continuous actions with HalfCheetah's sizes, and an LSTM with those of the wake."""
    mlps = [name for name, kind in algorithms().items() if kind.serves_boxes]
    return _cases(mlps, [AgentConfig().algorithm])


def all_cases() -> tuple[Case, ...]:
    """Return all algorithms with HalfCheetah's sizes, and their LSTMs with those of the wake."""
    return _cases(algorithms(), filter(_has_lstm, algorithms()))


def _cases(mlps: Iterable[str], lstms: Iterable[str]) -> tuple[Case, ...]:
    rows: list[Case] = [(name, "mlp", 17, 6) for name in mlps]
    rows += [(name, "lstm", 14, 3) for name in lstms]
    return tuple(rows)


def _has_lstm(algorithm: str) -> bool:
    try:
        AgentConfig(algorithm=algorithm, network="lstm")
    except ValidationError:
        return False
    return True


def _row(
    config: AgentConfig,
    observation: int,
    action: int,
    seconds: float,
    peer: tuple[str | None, float | None],
) -> dict[str, Any]:
    return {
        "algorithm": config.algorithm,
        "network": config.network,
        "sampler": config.sampler,
        "batch": config.sample_size,
        "observation": observation,
        "action": action,
        "threads": config.threads,
        "device": config.device,
        "updates_per_second": _speed(config, observation, action, seconds),
        "peer": peer[0],
        "peer_updates_per_second": peer[1],
    }


def _speed(config: AgentConfig, observation: int, action: int, seconds: float) -> float:
    learner = warm_learner(config, observation, action)
    return (
        _measure_iterations(learner, seconds)
        if isinstance(config, OnPolicyConfig)
        else measure_updates(learner.update, seconds)
    )


def _peer(
    config: AgentConfig, observation: int, action: int, seconds: float
) -> tuple[str | None, float | None]:
    """Return the name of the implementation that a learner is compared with, and its gradient steps per second."""
    if config.algorithm == "vracer":
        return PEER, measure_peer(config, observation, action, seconds)
    return (
        measure_sb3(config, observation, action, seconds)
        if sb3_is_available(config)
        else (None, None)
    )


def warm_learner(config: AgentConfig, observation: int, action: int) -> Learner:
    """Build a learner that is ready to update, with a memory filled to ``learning_starts`` by random episodes."""
    rng = np.random.default_rng(0)
    learner = Learner(
        config,
        gymnasium.spaces.Box(-np.inf, np.inf, (observation,), np.float32),
        gymnasium.spaces.Box(-1.0, 1.0, (action,), np.float32)
        if config.serves_boxes
        else gymnasium.spaces.Discrete(action),
        agents=AGENTS,
        seed=0,
    )
    while learner.memory.storage.steps < config.learning_starts and not learner.updates_due():
        _play(learner, rng)
    return learner


def _play(learner: Learner, rng: np.random.Generator) -> None:
    """Play a random episode with every agent, or up to the next iteration of an on-policy learner."""
    agents = np.arange(AGENTS)
    nobody = np.zeros(AGENTS, np.bool_)
    shape = AGENTS, learner.sizes.seen
    learner.begin(agents, rng.standard_normal(shape))
    for step in range(EPISODE_STEPS):
        if isinstance(learner.config, OnPolicyConfig) and learner.updates_due():
            return
        learner.act(agents)
        rewards, observations = rng.standard_normal(AGENTS), rng.standard_normal(shape)
        learner.observe(agents, rewards, nobody, nobody | (step == EPISODE_STEPS - 1), observations)


def _measure_iterations(learner: Learner, seconds: float) -> float:
    """Return gradient steps per second of PPO or A3C; the time of the rollouts between them is not included."""
    rng, updates, spent = np.random.default_rng(1), 0, 0.0
    while spent < seconds:
        while not learner.updates_due():
            _play(learner, rng)
        due, began = learner.updates_due(), time.perf_counter()
        for _ in range(due):
            learner.update()
        spent += time.perf_counter() - began
        updates += due
    return round(updates / spent, 1)


def measure_updates(update: Callable[[], None], seconds: float) -> float:
    """Return calls of ``update`` per second: the best of ten runs, after a warm-up run."""
    best = 0.0
    for run in range(11):
        calls, begin = 0, time.perf_counter()
        # at least once, also when the machine stands still for longer than that
        while calls == 0 or time.perf_counter() - begin < seconds / 11:
            update()
            calls += 1
        if run > 0:
            best = max(best, calls / (time.perf_counter() - begin))
    return round(best, 1)


def measure_peer(config: AgentConfig, observation: int, action: int, seconds: float) -> float:
    """Return gradient steps per second of plain PyTorch on a fixed batch of the same shapes."""
    torch.set_num_threads(config.threads)
    with torch.device(config.device):
        update = _peer_update(config, observation, action)
    return measure_updates(update, seconds)


def _peer_update(config: AgentConfig, observation: int, action: int) -> Callable[[], None]:
    body: torch.nn.Module
    if config.network == "mlp":
        first, second = config.hidden_sizes
        body = torch.nn.Sequential(
            torch.nn.Linear(observation, first),
            torch.nn.Softsign(),
            torch.nn.Linear(first, second),
            torch.nn.Softsign(),
        )
        inputs = torch.randn(config.batch_size, observation)
    else:
        body = torch.nn.LSTM(
            observation, config.hidden_sizes[0], num_layers=len(config.hidden_sizes)
        )
        inputs = torch.randn(config.window + 1, config.batch_size, observation)
    head = torch.nn.Linear(config.hidden_sizes[-1], 1 + action)
    raw_sigma = torch.nn.Parameter(torch.zeros(action))
    adam = torch.optim.Adam(
        [*body.parameters(), *head.parameters(), raw_sigma], lr=1e-6, fused=True
    )
    v_tbc, q_ret, actions = (
        torch.randn(config.batch_size),
        torch.randn(config.batch_size),
        torch.randn(config.batch_size, action),
    )
    mu = torch.distributions.Normal(
        torch.zeros(config.batch_size, action), torch.ones(config.batch_size, action)
    )

    def update() -> None:
        features = body(inputs) if config.network == "mlp" else body(inputs)[0][-1]
        outputs = head(features)
        value = outputs[:, 0]
        pi = torch.distributions.Normal(outputs[:, 1:], torch.nn.functional.softplus(raw_sigma))
        rho = (pi.log_prob(actions) - mu.log_prob(actions)).sum(1).exp()
        loss = -rho * (q_ret - value.detach()) + 0.5 * (value - v_tbc) ** 2
        kl = torch.distributions.kl_divergence(mu, pi).sum(1)
        near = (rho > 1 / config.c_max_scale) & (rho < config.c_max_scale)
        adam.zero_grad()
        (0.5 * torch.where(near, loss, 0.0) + 0.5 * kl).mean().backward()
        adam.step()
        if config.device == "cuda":
            torch.cuda.synchronize()  # the host waits for V and rho of every step

    return update
