"""Several agents in an environment: their messages in version 1.1 of the protocol, and logs written before it."""

import dataclasses
import os
import re
import struct
import subprocess
import sys
import time

import msgspec
import numpy as np
import pytest
import second_client
import zmq
from shell import HERE
from worker_by_hand import Peer, Recorder

from coupling.service.exchange import Exchange
from coupling.service.experience import Opened, Taken
from coupling.service.server import Server
from coupling.service.terms import Terms
from coupling.wire import protocol
from coupling.wire.bodies import read_body
from coupling.wire.connection import Connection, task_hash, write_connection
from coupling.wire.protocol import Header, Kind, Step

N, S, A = 3, 2, 2
GUARD = 120  # seconds, against a hang only
SEEN = np.arange(2 * N * S, dtype=np.float32).reshape(2, N, S)
REWARDS = np.array([[1.0, 2.0, 0.5], [-1.0, 0.25, 4.0]])
GONE = np.array([[False, True, False], [True, True, True]])
NEXT = SEEN + 100.0


class Joined(Recorder):
    """A learner of environments with several agents, whose actions are numbered."""

    def decide(self, agents):
        actions = np.arange(len(agents) * N * A, dtype=np.float32).reshape(-1, N, A)
        return dataclasses.replace(super().decide(agents), action=actions)

    def observe(self, agents, rewards, terminated, truncated, observations, agent_ended):
        super().observe(agents, rewards, terminated, truncated, observations)
        self.calls.append(("ended", agent_ended.tolist()))


def a_step(ended=False):
    """A step of two environments; if ``ended``, the second is terminated."""
    over = np.array([False, ended])
    gone = GONE if ended else GONE & [[True], [False]]
    no = over & False
    return Step(REWARDS, NEXT, over, no, no, no, SEEN[over], gone)


def joint_row(seen, rewards, gone):
    """Bytes of an environment as written before version 1.1: observation, reward and end flag of each agent."""
    return b"".join(
        struct.pack(f"<{S + 2}f", *row, reward, flag)
        for row, reward, flag in zip(seen, rewards, gone, strict=True)
    )


def old_step(ended=False, failed=False):
    """The body of :func:`a_step` as it was before version 1.1."""
    step, none = a_step(ended), np.zeros(N)
    mean = step.rewards.mean(axis=1) * (1 - failed)
    first = [(none, none) if over else pair for over, *pair in
             zip(step.ended | failed, step.rewards, step.agent_ended, strict=True)]  # fmt: skip
    rows = b"".join(joint_row(seen, *pair) for seen, pair in zip(NEXT, first, strict=True))
    final = joint_row(SEEN[1], REWARDS[1], GONE[1]) if ended else b""
    return struct.pack("<2d", *mean) + rows + final + bytes([8 * failed, 8 * failed or int(ended)])


@pytest.fixture
def joined(log):
    """A service of environments with three agents, and what makes peers of it."""
    context, learner = zmq.Context(), Joined()
    terms = Terms(
        [2, 2], S, [-1.0] * A, [1.0] * A, "t", lambda agent, session: agent, agents_per_env=N
    )
    server = Server(learner, "tcp://127.0.0.1:*", terms, 1000, log)
    yield learner, server, lambda: Peer(server, context)
    context.destroy(linger=0)
    server.close("over")


def hello(**changes):
    return {"observation_size": S, "action_low": [-1.0] * A, "action_high": [1.0] * A} | changes


# --- the learner's side ---------------------------------------------------------------------------------------


def test_messages_have_an_agent_axis(joined):
    learner, _, peer = joined
    worker = peer()
    header, welcome = worker.join(**hello(agents_per_env=N))
    assert (header.kind, header.minor, welcome.agents_per_env) == (Kind.WELCOME, 1, N)
    header, body = worker.tell(Kind.RESET, SEEN.tobytes(), minor=1)
    assert (header.kind, header.minor) == (Kind.ACTION, 1)
    actions = protocol.decode_actions(body, 2, N, A)
    np.testing.assert_array_equal(actions.ravel(), np.arange(2 * N * A))
    header, _ = worker.tell(Kind.STEP, protocol.encode_step(a_step(ended=True)), minor=1)
    assert (header.kind, header.minor) == (Kind.ACTION, 1)
    resulting = [NEXT[0].tolist(), SEEN[1].tolist()]
    assert learner.calls == [
        ("begin", [0, 1], SEEN.tolist()),
        ("act", [0, 1]),
        ("observe", [0, 1], REWARDS.tolist(), [False, True], resulting),
        ("ended", GONE.tolist()),
        ("begin", [1], [NEXT[1].tolist()]),
        ("act", [0, 1]),
    ]


def test_step_with_an_unlearnable_reward_of_one_agent_is_dropped(joined):
    learner, server, peer = joined
    worker = peer()
    worker.join(**hello(agents_per_env=N))
    worker.tell(Kind.RESET, SEEN.tobytes(), minor=1)
    huge = dataclasses.replace(a_step(), rewards=np.where(REWARDS == 4.0, 1e19, REWARDS))
    worker.tell(Kind.STEP, protocol.encode_step(huge), minor=1)
    assert server.counts.unlearnable == 1
    assert ("abandon", [1]) in learner.calls
    observed = [call[1] for call in learner.calls if call[0] == "observe"]
    assert observed == [[0]]


@pytest.mark.parametrize(
    ("changes", "minor", "sentence"),
    [
        ({}, 0, "speaks version 1.0 of the protocol, whose environments have one agent, .* have 3"),
        ({"agents_per_env": 2}, 1, "its environments have 2 agents, this run's have 3"),
        ({"agents_per_env": 1}, 1, "its environments have 1 agents, this run's have 3"),
        ({"agents_per_env": N, "observation_size": 4}, 1, "observations and actions have 4 and 2"),
    ],
)
def test_wrong_number_of_agents_is_refused_with_a_reason(joined, changes, minor, sentence):
    header, message = joined[2]().say(joined[2]().hello(**hello(**changes)))
    assert (header.kind, header.minor) == (Kind.REJECT, minor)
    assert re.search(sentence, message.reason), message.reason


def test_malformed_version_1_1_message_is_rejected_in_version_1_1(joined):
    header, _ = joined[2]().say(protocol.encode(Header(Kind.HELLO, minor=1), b"\x80"))
    assert (header.kind, header.minor) == (Kind.REJECT, 1)


def test_single_agent_workers_of_both_versions_are_served_alike(served):
    learner, server, peer = served
    old, new = peer(), peer()
    header, welcome = old.join()
    assert (header.minor, welcome.agents_per_env) == (0, msgspec.UNSET)
    header, welcome = new.join(slot=1, agents_per_env=1)
    assert (header.minor, welcome.agents_per_env) == (1, 1)
    answers = [old.reset(), new.reset_message(minor=1)]
    answers[1] = new.say(answers[1])
    outcome = new.outcome((False, True))
    parts = {name: getattr(outcome, name)[:, None] for name in ("rewards", "observations", "final")}
    with_axis = dataclasses.replace(outcome, **parts, agent_ended=np.array([[False], [True]]))
    answers.append(old.step((False, True)))
    answers.append(new.tell(Kind.STEP, protocol.encode_step(with_axis), minor=1))
    assert [header.minor for header, _ in answers] == [0, 1, 0, 1]
    assert {len(body) for _, body in answers} == {2 * A * 4}
    told = [call for call in learner.calls if call[0] == "observe"]
    assert len(told) == 2
    assert told[0][2:] == told[1][2:]  # rewards, ends and observations, of other agents
    assert not server.counts.violations


# --- a worker meets a learner of version 1.0 ------------------------------------------------------------------


@pytest.fixture
def of_1_0(tmp_path):
    """A learner of 1.0, which reads and writes by a program written from that version's page alone."""
    context = zmq.Context()
    router = context.socket(zmq.ROUTER)
    router.bind("tcp://127.0.0.1:*")
    processes = []

    def start(env, options):
        endpoint = router.get_string(zmq.LAST_ENDPOINT)
        connection = Connection(endpoint, "old", env, options, 60.0, [1])
        write_connection(tmp_path / "connection.json", connection)
        words = ["-m", "coupling.worker", "--connect", str(tmp_path / "connection.json")]
        processes.append(
            subprocess.Popen(
                [sys.executable, *words, "--slot", "0", "--environments", "1"],
                stderr=subprocess.PIPE,
                text=True,
                env=os.environ | {"PYTHONPATH": str(HERE)},
            )
        )
        return processes[-1]

    def hear(process):
        until = time.monotonic() + GUARD
        while not router.poll(50):
            assert time.monotonic() < until
            assert process.poll() is None, process.communicate()
        return router.recv_multipart()

    yield start, hear, router
    for process in processes:
        if process.poll() is None:
            process.kill()
            process.communicate()
    context.destroy(linger=0)


def test_multi_agent_worker_reports_a_learner_of_version_1_0(of_1_0):
    start, hear, router = of_1_0
    process = start("parallel:meadow", {"count": 3})
    route, frame = hear(process)
    kind, _, body = second_client.read(frame)
    with pytest.raises(second_client.RefusedError, match="its keys") as refusal:
        second_client.read_map(kind, body)
    reason = second_client.write_map("REJECT", {"reason": f"HELLO: {refusal.value}"})
    router.send_multipart([route, second_client.write("REJECT", reason)])
    _, told = process.communicate(timeout=GUARD)
    assert process.returncode == 1
    assert "HELLO: its keys; it speaks version 1.0 of the protocol" in told
    assert "those of this worker have 3: install the same flowsim on both sides" in told


def test_single_agent_worker_speaks_version_1_0(of_1_0):
    start, hear, router = of_1_0
    process = start("CartPole-v1", {})
    route, frame = hear(process)
    assert frame[4:6] == bytes([1, 0])
    kind, _, body = second_client.read(frame)
    told = second_client.read_map(kind, body)
    assert (told["observation_size"], told["task_hash"]) == (4, task_hash("CartPole-v1", {}))
    welcome = {
        "version": 1, "session": 7, "slot": 0, "first_agent": 0, "seeds": [1], "heartbeat": 60.0, "patience": 60.0,
    }  # fmt: skip
    answer = second_client.write("WELCOME", second_client.write_map("WELCOME", welcome), session=7)
    router.send_multipart([route, answer])
    while kind != "RESET":
        route, frame = hear(process)
        kind, header, body = second_client.read(frame)
    assert frame[5] == 0
    assert len(second_client.unpack(body, 1, 4)[0]) == 4
    order = {"session": 7, "sequence": 1, "acknowledgement": 1, "environments": 1}
    router.send_multipart(
        [route, second_client.write("ACTION", second_client.pack("f", [[1.0]]), **order)]
    )
    while kind != "STEP":
        _, frame = hear(process)
        kind, header, body = second_client.read(frame)
    rewards, *_ = second_client.read_step(body, header["environments"], 4)
    assert (frame[5], rewards) == (0, [1.0])


# --- what was written before ------------------------------------------------------------------------------------


@pytest.mark.parametrize("ended", [False, True])
def test_multi_agent_steps_written_before_version_1_1_are_read(ended):
    header = Header(Kind.STEP, session=1, sequence=2, environments=2)
    found = read_body(header, old_step(ended), S, N)
    for name, value in vars(a_step(ended)).items():
        np.testing.assert_array_equal(getattr(found, name), value, err_msg=name, strict=True)


def test_failed_steps_and_resets_written_before_version_1_1_are_read():
    header = Header(Kind.STEP, session=1, sequence=2, environments=2)
    found = read_body(header, old_step(failed=True), S, N)
    assert found.failed.all()
    assert not found.rewards.any()
    assert not found.agent_ended.any()
    np.testing.assert_array_equal(found.observations, NEXT)
    none = np.zeros(N)
    body = b"".join(joint_row(seen, none, none) for seen in SEEN)
    header = Header(Kind.RESET, session=1, sequence=1, environments=2)
    np.testing.assert_array_equal(read_body(header, body, S, N), SEEN)


def test_log_written_before_version_1_1_is_replayed_like_a_current_one(log):
    """Both logs lead to the same calls of the learner, and the next message is answered in its own version."""
    none = np.zeros(N)
    reset = b"".join(joint_row(seen, none, none) for seen in SEEN)
    bodies = {
        0: (reset, old_step(), old_step(ended=True)),
        1: (SEEN.tobytes(), *map(protocol.encode_step, (a_step(), a_step(ended=True)))),
    }
    told = []
    for minor, frames in bodies.items():
        learner = Joined()
        exchange = Exchange(learner, log, [2], S, 1000, agents_per_env=N)
        records = [Opened(session=5, incarnation=9, slot=0, first_agent=0, environments=2)]
        for number, body in enumerate(frames, 1):
            kind = Kind.STEP if number > 1 else Kind.RESET
            header = Header(kind, session=5, sequence=number, environments=2, minor=minor)
            records.append(Taken([protocol.encode(header, body)]))
        exchange.replay(records)
        told.append(learner.calls)
        (entry,) = exchange.answer(list(exchange.ledger), epoch=0)
        assert protocol.decode(entry.answer)[0].minor == minor
    assert told[0] == told[1]
    assert len(told[0]) == 7
