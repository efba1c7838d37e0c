"""Tasks whose messages would be larger than the protocol allows are refused before anything is created."""

import gymnasium
import numpy as np
import pytest

from coupling.errors import ConfigError
from coupling.run.serving import refuse_too_large
from coupling.settings.config import load_config
from coupling.wire import protocol
from coupling.worker.environments import Task
from rl_agent.normalization.spaces import sizes_of

LIMIT = protocol.HEADER_SIZE + protocol.MAX_BODY


def box(size, bound=1.0):
    return gymnasium.spaces.Box(-bound, bound, (size,), np.float32)


def config_of(agents=2, processes=1):
    return load_config(
        None, ["env=small/none", f"workers.agents={agents}", f"workers.processes={processes}"]
    )


def longest_hello(task, environments):
    """A HELLO that brings the longest STEP of a worker."""
    size = sizes_of(task.observation_space, task.action_space, task.agents_per_env)
    agents = size.agents_per_env if size.agents_per_env > 1 else None
    axis = () if agents is None else (agents,)
    ends = np.ones(environments, bool)
    seen = np.zeros((environments, *axis, size.observation), np.float32)
    step = protocol.Step(
        np.zeros((environments, *axis)), seen, ends, ~ends, ~ends, ~ends, seen,
        None if agents is None else np.ones((environments, agents), bool),
    )  # fmt: skip
    header = protocol.Header(
        protocol.Kind.STEP, session=1, sequence=2, environments=environments, minor=bool(agents)
    )
    low, high = task.action_bounds
    sizes = {} if agents is None else {"agents_per_env": agents}
    return protocol.encode_control(
        protocol.Hello(
            (1, 1),
            2**62,
            65_535,
            2**62,
            "h" * 255,
            environments,
            size.observation,
            low,
            high,
            "t" * 64,
            protocol.encode(header, protocol.encode_step(step)),
            **sizes,
        )
    )


@pytest.mark.parametrize(
    ("task", "what"),
    [
        (Task(box(65_537, np.inf), box(1)), "its observation has 65537 numbers"),
        (Task(box(3, np.inf), box(65_537)), "its action has 65537 numbers"),
    ],
)
def test_too_many_numbers_are_refused(task, what):
    with pytest.raises(
        ConfigError, match=f"{what}, but at most 65536 can be sent; .*ResizeObservation"
    ):
        refuse_too_large(config_of(), task)
    header, body = protocol.decode(longest_hello(task, 1))
    with pytest.raises(protocol.ProtocolError, match="65536"):
        protocol.decode_control(header, body)


@pytest.mark.parametrize(
    "task",
    [
        Task(box(65_536, np.inf), box(65_536)),
        Task(box(28_224, np.inf), gymnasium.spaces.Discrete(4)),
        Task(box(4000, np.inf), box(2), agents_per_env=5),
    ],
)
def test_too_many_environments_of_a_worker_are_refused_with_a_number_that_fits(task):
    with pytest.raises(ConfigError, match=r"messages of up to \d+ MiB") as refused:
        refuse_too_large(config_of(agents=5000), task)
    processes = int(str(refused.value).rpartition("workers.processes=")[2].split()[0])
    config = config_of(agents=5000, processes=processes)
    refuse_too_large(config, task)
    most = max(config.workers.agents_of_each())
    frame = longest_hello(task, most)
    assert len(frame) <= LIMIT
    protocol.decode_control(*protocol.decode(frame))
    with pytest.raises(ConfigError):
        refuse_too_large(config_of(agents=5000, processes=processes - 1), task)
    # not refused without need
    assert len(frame) * (processes / (processes - 1)) > 0.9 * LIMIT
