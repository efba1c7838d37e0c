"""The ledger against the simplest model: the list of messages that a perfect network would deliver.

Workers send numbered messages, one at a time, over a network that repeats, delays, reorders and loses them; they die
and are followed by others who bring their last message; the learner dies too and knows its ledger again from JSON.
"""

import json
from collections import Counter

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    Bundle,
    RuleBasedStateMachine,
    consumes,
    invariant,
    multiple,
    precondition,
    rule,
)

from coupling.service.ledger import Ledger, OrderError, Verdict
from coupling.wire.protocol import Header, Kind

SLOTS = 3
ENVIRONMENTS = 2


def header(session, sequence, kind=None, **fields):
    kind = kind or (Kind.RESET if sequence == 1 else Kind.STEP)
    return Header(
        kind, session=session, sequence=sequence, **{"environments": ENVIRONMENTS} | fields
    )


class Process:
    """A worker's process: it sends the next message once the last one was answered."""

    def __init__(self, session, slot, has_outbox):
        self.session, self.slot, self.has_outbox = session, slot, has_outbox
        self.sent, self.answered = 0, 0
        self.actions = {}

    @property
    def last(self):
        return (self.session, self.sent)


class LedgerMachine(RuleBasedStateMachine):
    """Messages are (session, sequence); actions (session, sequence, content)."""

    messages = Bundle("messages")
    actions = Bundle("actions")

    def __init__(self):
        super().__init__()
        self.ledger = Ledger()
        self.memory = []
        self.living: dict[int, Process] = {}
        self.last: dict[int, Process] = {}  # of each slot, dead or alive
        self.everybody: list[Process] = []
        self.draws = 0

    # --- workers

    @precondition(lambda self: len(self.living) < SLOTS)
    @rule(choice=st.integers(0, SLOTS - 1), has_outbox=st.booleans())
    def join(self, choice, has_outbox):
        free = [slot for slot in range(SLOTS) if slot not in self.living]
        slot = free[choice % len(free)]
        before = self.last.get(slot)
        if before is not None:
            if before.has_outbox and before.sent:
                self.deliver(before.last)
            self.ledger.close(before.session)
        session = 100 + len(self.everybody)
        entry = self.ledger.open(session, session, slot, slot * ENVIRONMENTS, ENVIRONMENTS)
        assert entry.number == sum(process.slot == slot for process in self.everybody)
        process = Process(session, slot, has_outbox)
        self.living[slot] = self.last[slot] = process
        self.everybody.append(process)

    @precondition(
        lambda self: any(process.sent == process.answered for process in self.living.values())
    )
    @rule(target=messages, choice=st.integers(0, SLOTS - 1))
    def send(self, choice):
        ready = [process for process in self.living.values() if process.sent == process.answered]
        process = ready[choice % len(ready)]
        process.sent += 1
        return process.last

    @precondition(lambda self: bool(self.living))
    @rule(choice=st.integers(0, SLOTS - 1))
    def die(self, choice):
        del self.living[sorted(self.living)[choice % len(self.living)]]

    # --- the network: what is in a bundle comes any number of times, in any order, or never

    @rule(message=messages)
    def deliver(self, message):
        session, sequence = message
        if session not in self.ledger:
            return
        entry = self.ledger[session]
        before = self.ledger.save()
        verdict = self.ledger.classify(header(session, sequence))
        assert self.ledger.save() == before
        had = self.memory.count(message)
        if verdict is Verdict.TAKE:
            assert had == 0
            self.ledger.take(header(session, sequence))
            self.memory.append(message)
        elif verdict is Verdict.WAIT:
            assert had == 1
            assert entry.waiting
        elif verdict is Verdict.REPEAT:
            assert had == 1
            self.hear((session, sequence, entry.answer))
        else:
            assert verdict is Verdict.LATE
            assert had == 1
            assert sequence < entry.sequence

    @rule(action=actions)
    def hear(self, action):
        session, sequence, content = action
        process = next(
            (process for process in self.living.values() if process.session == session), None
        )
        if process is None or sequence != process.sent:
            return
        assert process.actions.setdefault(sequence, content) == content  # never another draw
        process.answered = sequence

    @rule(message=consumes(messages))
    def lose(self, message):
        pass

    # --- the learner

    @rule(target=actions)
    def answer(self):
        answered = []
        for entry in self.ledger:
            if entry.waiting:
                self.draws += 1
                self.ledger.answer(entry.session, b"%d" % self.draws)
                assert entry.acting
                answered.append((entry.session, entry.sequence, entry.answer))
        return multiple(*answered)

    @rule()
    def learner_dies(self):
        saved = json.loads(json.dumps(self.ledger.save()))
        self.ledger = Ledger()
        self.ledger.restore(saved)
        assert json.loads(json.dumps(self.ledger.save())) == saved

    # --- violations of the protocol change nothing

    @precondition(lambda self: bool(self.living))
    @rule(choice=st.integers(0, SLOTS - 1), ahead=st.integers(2, 5))
    def gap(self, choice, ahead):
        process = self.living[sorted(self.living)[choice % len(self.living)]]
        sequence = self.ledger[process.session].sequence + ahead
        with pytest.raises(OrderError, match="cannot come now"):
            self.ledger.classify(header(process.session, sequence))

    @precondition(lambda self: any(entry.waiting for entry in self.ledger))
    @rule()
    def too_early(self):
        entry = next(entry for entry in self.ledger if entry.waiting)
        with pytest.raises(OrderError, match="cannot come now"):
            self.ledger.classify(header(entry.session, entry.sequence + 1))

    @precondition(lambda self: bool(self.living))
    @rule(
        fields=st.sampled_from(
            [{"first": 1}, {"environments": 1}, {"kind": Kind.STEP}, {"kind": Kind.RESET}]
        )
    )
    def malformed(self, fields):
        entry = next(iter(self.ledger))
        sequence = 1 if fields.get("kind") is Kind.STEP else entry.sequence + 2
        with pytest.raises(OrderError):
            self.ledger.classify(header(entry.session, sequence, **fields))

    # --- invariants

    @invariant()
    def each_message_is_there_once_and_in_order(self):
        assert set(Counter(self.memory).values()) <= {1}
        for process in self.everybody:
            mine = [sequence for session, sequence in self.memory if session == process.session]
            assert mine == list(range(1, len(mine) + 1))
            assert process.sent - 1 <= len(mine) <= process.sent  # all but the one under way
            succeeded = self.last[process.slot] is not process
            if succeeded and process.has_outbox:
                assert len(mine) == process.sent

    @invariant()
    def one_open_session_for_each_worker_that_was_there(self):
        assert {entry.slot: entry.session for entry in self.ledger} == {
            slot: process.session for slot, process in self.last.items()
        }
        assert all(
            self.ledger.has_closed(p.session) == (p.session not in self.ledger)
            for p in self.everybody
        )


TestLedger = LedgerMachine.TestCase
TestLedger.settings = settings(
    max_examples=60, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck)
)


def test_a_place_has_one_session():
    ledger = Ledger()
    ledger.open(1, 1, 0, 0, 2)
    with pytest.raises(ValueError, match="worker 0 has a session already"):
        ledger.open(2, 2, 0, 0, 2)
