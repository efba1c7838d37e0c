"""Fixtures of the service, and this folder on the path of the tests in the folders below, which share its helpers."""

import subprocess

import pytest
import zmq
from learner_by_hand import Hand
from shell import HERE, ORACLE, ROOT, Shell
from worker_by_hand import Clock, Peer, Recorder, WatchedLog

from coupling.run.trust import note_training
from coupling.service.server import Server, Terms


@pytest.fixture(scope="session", autouse=True)
def whoever_runs_the_tests_has_trained_with_the_oracle():
    """So that no test depends on which others have run before it in its process."""
    with pytest.MonkeyPatch.context() as patch:
        patch.syspath_prepend(HERE)
        note_training(ORACLE)


@pytest.fixture
def shell(tmp_path):
    shell = Shell(tmp_path)
    yield shell
    shell.close()


@pytest.fixture(scope="session")
def built(c_tools, tmp_path_factory):
    folder = tmp_path_factory.mktemp("c-client")
    make = subprocess.run(
        ["make", "c-client-test", f"C_BUILD={folder}"], cwd=ROOT, capture_output=True, text=True
    )
    assert make.returncode == 0, make.stderr
    return folder


@pytest.fixture
def hand(built, tmp_path):
    hands = []

    def make(**settings):
        hands.append(Hand(built, tmp_path, **settings))
        return hands[-1]

    yield make
    for each in hands:
        each.close()


@pytest.fixture
def clock():
    return Clock()


@pytest.fixture
def log(tmp_path):
    log = WatchedLog(tmp_path / "experience")
    log.begin(0)
    return log


@pytest.fixture
def serve(clock, log):
    """Begin a service: its learner, its server and what makes peers of it."""
    context, servers = zmq.Context(), []

    def begin(limit=1000, **more):
        learner = Recorder()
        terms = Terms(
            [2, 2], 1, [-1.0, -1.0], [1.0, 1.0], "t", lambda agent, session: 100 * session + agent,
            **{"dead_after": 3.0, "step_timeout": 6.0} | more,
        )  # fmt: skip
        server = Server(learner, "tcp://127.0.0.1:*", terms, limit, log, clock=clock)
        servers.append(server)
        return learner, server, lambda: Peer(server, context)

    yield begin
    context.destroy(linger=0)
    for server in servers:
        server.close("over")


@pytest.fixture
def served(serve):
    return serve()
