"""The exchange alone, without sockets and without time: each message counts once, live and from the log."""

from types import SimpleNamespace

import numpy as np
import pytest

from coupling.service.exchange import Exchange
from coupling.service.experience import ExperienceLog
from coupling.service.ledger import Verdict
from coupling.wire import protocol
from coupling.wire.protocol import Header, Kind, ProtocolError
from rl_agent.rollout.open_episodes import Decision

SIZE = 2


class Counting:
    """A learner that acts with the sum of its observations, and counts what it receives."""

    def __init__(self):
        self.environment_steps = self.gradient_steps = 0
        self.told = []
        self.observations = {}

    def begin(self, agents, observations):
        self.observations |= dict(zip(agents.tolist(), observations.tolist(), strict=True))

    def decide(self, agents):
        action = np.array(
            [[sum(self.observations[agent])] for agent in agents.tolist()], np.float32
        )
        empty = np.zeros((len(agents), 0), np.float32)
        return Decision(agents, action, action, action, action[:, 0], empty, empty, {})

    def issue(self, decision):
        return decision.action

    def observe(self, agents, rewards, terminated, truncated, observations):
        self.environment_steps += len(agents)
        self.told += zip(agents.tolist(), rewards.tolist(), strict=True)
        self.begin(agents, observations)

    def abandon(self, agents):
        self.told.append(("abandoned", agents.tolist()))

    def updates_due(self):
        return 0

    def update(self):
        raise AssertionError("no gradient step is due")

    def learnable(self, observations):
        return (np.abs(observations) <= 1e18).all(axis=1)

    def may_act(self):
        return True


@pytest.fixture
def parts(tmp_path):
    """An exchange with two workers, of two environments and of one, its learner, and its log."""
    log, learner = ExperienceLog(tmp_path / "log"), Counting()
    log.begin(0)
    yield SimpleNamespace(
        exchange=Exchange(learner, log, [2, 1], SIZE, limit=100), learner=learner, log=log
    )
    log.close()


def frame_of(entry, kind, sequence, body):
    header = Header(kind, session=entry.session, sequence=sequence, environments=entry.environments)
    return protocol.encode(header, body)


def reset(entry, value=1.0):
    observations = np.full((entry.environments, SIZE), value, "<f4")
    return frame_of(entry, Kind.RESET, 1, observations.tobytes())


def step(entry, sequence, reward):
    count = entry.environments
    none = np.zeros(count, bool)
    outcome = protocol.Step(
        np.full(count, reward), np.full((count, SIZE), reward, "<f4"), none, none, none, none,
        np.zeros((0, SIZE), "<f4"),
    )  # fmt: skip
    return frame_of(entry, Kind.STEP, sequence, protocol.encode_step(outcome))


def send(exchange, frame):
    """Handle a message as a server does, except for the answer; return the verdict."""
    header, body = protocol.decode(frame)
    verdict = exchange.ledger.classify(header)
    if verdict is Verdict.TAKE:
        exchange.accept(frame, header, body)
    return verdict


def play(exchange):
    """Two workers, three steps each; every message comes twice. Returns the entries."""
    entries = [exchange.open(100 + slot, slot, count) for slot, count in enumerate((2, 1))]
    for sequence in range(1, 5):
        for entry in entries:
            frame = (
                reset(entry)
                if sequence == 1
                else step(entry, sequence, 10.0 * sequence + entry.slot)
            )
            assert send(exchange, frame) is Verdict.TAKE
            assert send(exchange, frame) is Verdict.WAIT
        exchange.settle()
        assert exchange.answer(entries, epoch=0) == entries
        assert send(exchange, frame) is Verdict.REPEAT
    return entries


def test_duplicate_messages_count_once(parts):
    play(parts.exchange)
    assert parts.learner.environment_steps == 9
    assert parts.learner.told == [
        (agent, 10.0 * sequence + slot) for sequence in (2, 3, 4) for agent, slot in ((0, 0), (1, 0), (2, 1))
    ]  # fmt: skip
    assert parts.exchange.agent_steps.tolist() == [3, 3, 3]
    assert parts.exchange.counts.round_trips == 12


def test_replayed_log_restores_the_exchange(parts, tmp_path):
    entries = play(parts.exchange)
    parts.exchange.close(entries[0].session)
    parts.exchange.flush()
    other = ExperienceLog(tmp_path / "other")
    other.begin(0)
    learner = Counting()
    again = Exchange(learner, other, [2, 1], SIZE, limit=100)
    assert again.replay(parts.log.records_since(0)) == 9
    assert again.notes() == parts.exchange.notes()
    assert learner.told == parts.learner.told
    assert learner.told[-1] == ("abandoned", [0, 1])
    other.close()


def test_body_that_contradicts_its_header_changes_nothing(parts):
    entry = parts.exchange.open(7, 0, 2)
    before = parts.exchange.notes()
    frame = frame_of(entry, Kind.RESET, 1, b"\0" * 5)
    with pytest.raises(ProtocolError):
        send(parts.exchange, frame)
    assert parts.exchange.notes() == before


def test_no_action_is_given_beyond_the_limit(parts, tmp_path):
    log = ExperienceLog(tmp_path / "short")
    log.begin(0)
    short = Exchange(parts.learner, log, [2, 1], SIZE, limit=2)
    entries = [short.open(slot, slot, count) for slot, count in enumerate((2, 1))]
    for entry in entries:
        send(short, reset(entry))
    short.settle()
    assert short.answer(entries, epoch=0) == entries[:1]
    assert not short.finished
    send(short, step(entries[0], 2, 1.0))
    short.settle()
    assert short.answer(entries, epoch=0) == []
    assert short.finished
    log.close()


class Learning(Counting):
    """A learner that owes two gradient steps for every action, and notes what happened in which order."""

    def __init__(self):
        super().__init__()
        self.issued = 0

    def issue(self, decision):
        self.issued += len(decision.agents)
        self.told.append(("acts", decision.agents.tolist()))
        return super().issue(decision)

    def updates_due(self):
        return 2 * self.issued - self.gradient_steps

    def update(self):
        self.gradient_steps += 1
        self.told.append("learns")


def rounds(learner, log, arrivals):
    """Play rounds of two workers whose messages arrive in an order, after some of the gradient steps that are due."""
    exchange = Exchange(learner, log, [2, 1], SIZE, limit=100, synchronous=True)
    entries = [exchange.open(100 + slot, slot, count) for slot, count in enumerate((2, 1))]
    for sequence, (order, updates) in enumerate(arrivals, 1):
        for number, slot in enumerate(order):
            for _ in range(min(updates[number], learner.updates_due())):
                learner.update()
            entry = entries[slot]
            frame = reset(entry) if sequence == 1 else step(entry, sequence, 10.0 * sequence + slot)
            assert send(exchange, frame) is Verdict.TAKE
            exchange.settle()
            if number == 0:
                assert exchange.answer([entry], epoch=0) == []  # the other one is waited for
        while learner.updates_due():
            assert exchange.is_pending
            assert not exchange.is_ready
            assert exchange.answer(entries[::-1], epoch=0) == []
            learner.update()
        assert exchange.is_ready or not exchange.is_pending
        exchange.settle()
        assert exchange.answer(entries[::-1], epoch=0) == entries
    return exchange


def test_synchronous_exchange_does_not_depend_on_arrival_times(tmp_path):
    told = []
    arrivals = (
        [((0, 1), (0, 0))] * 4,
        [((1, 0), (0, 6)), ((0, 1), (6, 0)), ((1, 0), (2, 1)), ((1, 0), (0, 5))],
    )
    for number, each in enumerate(arrivals):
        log = ExperienceLog(tmp_path / str(number))
        log.begin(0)
        learner = Learning()
        exchange = rounds(learner, log, each)
        told.append(learner.told)
        # the log reproduces it, including gradient steps
        other = ExperienceLog(tmp_path / f"{number} again")
        other.begin(0)
        again = Exchange(Learning(), other, [2, 1], SIZE, limit=100, synchronous=True)
        assert again.replay(log.records_since(0)) == 9
        assert again.notes() == exchange.notes()
        assert again._learner.told == learner.told
        log.close()
        other.close()
    assert told[0] == told[1]
    first = [("acts", [0, 1, 2]), *["learns"] * 6, (0, 20.0), (1, 20.0), (2, 21.0)]
    assert told[0][: len(first)] == first


def test_pending_synchronous_steps_are_handed_over_for_a_checkpoint(tmp_path):
    log = ExperienceLog(tmp_path / "log")
    log.begin(0)
    learner = Learning()
    exchange = rounds(learner, log, [((0, 1), (0, 0))])
    first = next(entry for entry in exchange.ledger if entry.slot == 0)
    assert send(exchange, step(first, 2, 20.0)) is Verdict.TAKE
    exchange.settle()
    assert learner.environment_steps == 0
    exchange.hand_over()
    assert learner.told[-8:] == [*["learns"] * 6, (0, 20.0), (1, 20.0)]
    assert not exchange.is_pending
    log.close()


def odd_step(entry, sequence, *, rewards, seen, truncated=(False, False), final=()):
    none = np.zeros(entry.environments, bool)
    outcome = protocol.Step(
        np.array(rewards), np.array(seen, "<f4")[:, None] * np.ones(SIZE, "<f4"), none, np.array(truncated), none,
        none, np.array(final, "<f4")[:, None] * np.ones((1, SIZE), "<f4"),
    )  # fmt: skip
    return frame_of(entry, Kind.STEP, sequence, protocol.encode_step(outcome))


def answered(exchange, entry, frame):
    assert send(exchange, frame) is Verdict.TAKE
    exchange.settle()
    assert exchange.answer([entry], epoch=0) == [entry]


def test_unlearnable_step_gives_no_transition(parts, tmp_path):
    exchange, learner = parts.exchange, parts.learner
    entry = exchange.open(7, 0, 2)
    answered(exchange, entry, reset(entry))
    frames = [
        odd_step(entry, 2, rewards=[1.0, 2.0], seen=[3.0, 1e38]),
        odd_step(entry, 3, rewards=[1.5, 2.5], seen=[4.0, 5.0]),  # from an observation that cannot be learned from
        odd_step(entry, 4, rewards=[1e20, 3.0], seen=[6.0, 7.0]),
        odd_step(entry, 5, rewards=[4.0, 5.0], seen=[8.0, 1e30], truncated=[True, True], final=[2e18, 9.0]),
        odd_step(entry, 6, rewards=[6.0, 7.0], seen=[9.0, 9.0]),
    ]  # fmt: skip
    for frame in frames[:1]:
        answered(exchange, entry, frame)
    assert learner.told == [(0, 1.0), ("abandoned", [1])]
    assert learner.observations[1] == [0.0, 0.0]
    notes = exchange.notes()
    assert notes["unlearnable"] == [1]
    assert exchange.complaints == [entry.session]
    for frame in frames[1:]:
        answered(exchange, entry, frame)
    assert learner.told[2:] == [
        (0, 1.5), ("abandoned", [1]),
        (1, 3.0), ("abandoned", [0]),
        (1, 5.0), ("abandoned", [0]),
        (0, 6.0), ("abandoned", [1]),
    ]  # fmt: skip
    assert exchange.counts.unlearnable == 5
    assert exchange.agent_steps.tolist() == [3, 2, 0]
    assert exchange.ended_episodes == 1
    parts.log.flush()
    twin, other = Counting(), ExperienceLog(tmp_path / "other")
    other.begin(0)
    again = Exchange(twin, other, [2, 1], SIZE, limit=100)
    again.replay(parts.log.records_since(0))
    assert twin.told == learner.told
    assert again.notes() == exchange.notes()
    resumed = Exchange(Counting(), other, [2, 1], SIZE, limit=100)
    resumed.restore(notes)
    answered(resumed, resumed.ledger.of_slot(0), frames[1])
    assert resumed.counts.unlearnable == 1
    other.close()


def test_unlearnable_first_observation_starts_no_episode(parts):
    exchange, learner = parts.exchange, parts.learner
    entry = exchange.open(7, 0, 2)
    answered(exchange, entry, reset(entry, 1e20))
    assert learner.observations == {0: [0.0, 0.0], 1: [0.0, 0.0]}
    answered(exchange, entry, step(entry, 2, 5.0))
    assert learner.told == [("abandoned", [0, 1])]
    answered(exchange, entry, step(entry, 3, 6.0))
    assert learner.told[1:] == [(0, 6.0), (1, 6.0)]
