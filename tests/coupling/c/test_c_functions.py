"""The functions of the C client, one by one, against a scripted learner."""

import ctypes
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from learner_by_hand import GUARD, SESSION

from coupling.wire import protocol
from coupling.wire.protocol import Kind

ROOT = Path(__file__).parents[3]
GOLDEN = json.loads(
    (ROOT / "coupling" / "wire" / "golden_vectors.json").read_text(encoding="utf-8")
)
READ_BY_A_CLIENT = {"WELCOME", "REJECT", "ACTION", "PAUSE", "ERROR", "GOODBYE"}
WRITTEN_BY_A_CLIENT = {"HELLO", "RESET", "STEP", "HEARTBEAT", "ERROR", "GOODBYE"}


class Library:
    """The client's functions, called from Python; each runs concurrently with the scripted learner."""

    def __init__(self, built, file, environments):
        self.library = ctypes.CDLL(str(built / "libflowsim_client.so"))
        self.library.flowsim_error.restype = ctypes.c_char_p
        self.library.flowsim_seed.restype = ctypes.c_int64
        self.client, self.file, self.n = ctypes.c_void_p(), str(file).encode(), environments
        self.actions = np.zeros((environments, 1), np.float32)
        self.threads = ThreadPoolExecutor(1)

    def open(self, *, slot=-1, size=2, low=-1.0, high=1.0):
        sizes = [ctypes.c_int(number) for number in (slot, self.n, size, 1)]
        bounds = [(ctypes.c_double * 1)(bound) for bound in (low, high)]
        where = ctypes.byref(self.client)
        return self.threads.submit(
            self.library.flowsim_open, where, self.file, *sizes, *bounds, None
        )

    def __getattr__(self, name):
        function = getattr(self.library, f"flowsim_{name}")
        return lambda *given: self.threads.submit(function, self.client, *map(as_c, given))

    def error(self):
        return self.library.flowsim_error(self.client).decode()


def as_c(value):
    return value.ctypes if isinstance(value, np.ndarray) else value


@pytest.fixture
def library(built, hand):
    learner = hand(environments=2, heartbeat=0.05)
    made = Library(built, learner.folder / "connection.json", 2)
    yield learner, made
    made.close(None).result(GUARD)


BROKEN = -1


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"slot": -2}, "slot = -2"),
        ({"slot": 65536}, "slot = 65536"),
        ({"size": 0}, "observation_size = 0"),
        ({"size": 65537}, "observation_size = 65537"),
        ({"low": 1.0}, "bounds"),
        ({"high": float("nan")}, "bounds"),
    ],
)
def test_failed_open_gives_an_error_message(library, wrong, sentence):
    _, client = library
    assert client.open(**wrong).result(GUARD) == BROKEN
    assert sentence in client.error()


def test_failed_environment_is_reported_and_invalid_steps_are_not_sent(library):
    learner, client = library
    opening = client.open(low=-0.1, high=0.1)
    route = learner.join()
    assert opening.result(GUARD) == 0
    assert learner.hello.slot is None
    assert learner.hello.action_high == [float(np.float32(0.1))]  # as the learner has it
    assert [client.library.flowsim_seed(client.client, i) for i in (-1, 0, 1, 2)] == [-1, 0, 1, -1]
    observations = np.array([[1.0, 2.0], [3.0, 4.0]], np.float32)
    rewards, final, status = np.array([0.5, -0.5]), observations + 10, np.array([0, 0], np.int32)
    assert client.step(rewards, observations, final, status, client.actions).result(GUARD) == BROKEN
    assert "after flowsim_reset" in client.error()
    broken = observations.copy()
    broken[1, 1] = np.inf
    assert client.reset(broken, client.actions).result(GUARD) == BROKEN
    assert "environment 1" in client.error()

    resetting = client.reset(observations, client.actions)
    _, header, _ = learner.hear()
    assert (header.kind, header.sequence) == (Kind.RESET, 1)
    learner.action(route, 1, value=-7.0)
    assert resetting.result(GUARD) == 0
    np.testing.assert_array_equal(client.actions, np.full((2, 1), -0.1, np.float32))
    for wrong in (
        {"rewards": np.array([np.nan, 0.0])},
        {"rewards": np.array([1e39, 0.0])},
        {"observations": broken},
        {"final": broken, "status": np.array([0, 2], np.int32)},
        {"final": None, "status": np.array([0, 2], np.int32)},
        {"status": np.array([4, 0], np.int32)},
        {"status": np.array([9, 0], np.int32)},
        {"status": np.array([8, 0], np.int32)},  # with a reward
    ):
        given = {
            "rewards": rewards,
            "observations": observations,
            "final": final,
            "status": status,
        } | wrong
        assert client.step(*given.values(), client.actions).result(GUARD) == BROKEN, wrong
        assert "environment" in client.error()
    assert learner.is_left_alone(0.2)

    client.explain(b"the mesh is \x1b[31mtangled \xff \xc3\xa4").result(GUARD)
    rewards, status = np.array([0.0, 2.0]), np.array([8, 7], np.int32)
    stepping = client.step(rewards, observations, final, status, client.actions)
    _, header, frame = learner.hear()
    step = protocol.decode_step(frame[64:], 2, 2)
    assert (step.failed.tolist(), step.diverged.tolist()) == ([True, False], [False, True])
    assert (step.terminated.tolist(), step.truncated.tolist()) == ([False, True], [False, True])
    np.testing.assert_array_equal(step.final, final[1:])
    learner.action(route, header.sequence)
    assert stepping.result(GUARD) == 0
    learner.attend_until(lambda: learner.life.failures)
    assert (learner.life.failures, learner.life.failure) == (1, "the mesh is ?[31mtangled ? ä")
    learner.attend_until(lambda: learner.life.step_seconds > 0)
    assert learner.is_left_alone(0.2)


@pytest.mark.parametrize("reason", [None, b"the mesh is tangled"])
def test_close_sends_error_or_goodbye(library, reason):
    learner, client = library
    opening = client.open()
    learner.join()
    assert opening.result(GUARD) == 0
    client.close(reason).result(GUARD)
    client.client = ctypes.c_void_p()
    _, header, frame = learner.hear()
    said = protocol.decode_control(*protocol.decode(frame))
    assert said == (
        protocol.Error(reason.decode()) if reason else protocol.Goodbye("the worker leaves the run")
    )
    assert header.session == SESSION
