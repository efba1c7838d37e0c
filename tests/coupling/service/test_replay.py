"""A learner of any kind that is killed at any record of its log is rebuilt exactly from checkpoint and log."""

import itertools
import json

import gymnasium as gym
import numpy as np
import pytest
import zmq

from coupling.service.experience import Answered, ExperienceLog, Taken, decision_of
from coupling.service.server import Server, Terms
from coupling.wire import protocol
from coupling.wire.protocol import Header, Hello, Kind, Step
from rl_agent.config import AgentConfig
from rl_agent.learner import Learner

SIZE, ACTIONS, EACH = 3, 2, 2
KINDS = {
    "vracer": {"learning_starts": 60, "buffer_size": 4096, "batch_size": 8, "hidden": [8]},
    "lstm": {
        "learning_starts": 60,
        "env_steps_per_gradient_step": 4.0,
        "buffer_size": 4096,
        "batch_size": 8,
        "hidden": [8],
        "network": "lstm",
        "window": 3,
    },
    "ou": {
        "learning_starts": 60,
        "env_steps_per_gradient_step": 4.0,
        "buffer_size": 4096,
        "batch_size": 8,
        "hidden": [8],
        "algorithm": "ddpg",
        "replay": "none",
    },
    "forgetful": {
        "learning_starts": 30,
        "buffer_size": 60,
        "batch_size": 8,
        "hidden": [8],
        "env_steps_per_gradient_step": 2.0,
    },
    "ppo": {"algorithm": "ppo", "horizon": 48, "batch_size": 16, "epochs": 2, "hidden": [8]},
}
BOX = gym.spaces.Box(-1.0, 1.0, (SIZE,), np.float32)
BOX_OF_ACTIONS = gym.spaces.Box(-1.0, 1.0, (ACTIONS,), np.float32)


def make_server(learner, log):
    bounds = [-1.0] * ACTIONS, [1.0] * ACTIONS
    terms = Terms([EACH, EACH], SIZE, *bounds, "task", lambda agent, session: 7, dead_after=1000.0)
    return Server(learner, "tcp://127.0.0.1:*", terms, 10**6, log)


class Actor:
    """A worker's process whose environments return random values."""

    incarnations = itertools.count(1)

    def __init__(self, slot, server, context, random):
        self.slot, self.server, self.random = slot, server, random
        self.socket = context.socket(zmq.DEALER)
        self.socket.connect(server.endpoint)
        self.sequence = self.session = 0
        self.unsent = b""

    def join(self, recovered=b""):
        bounds = [-1.0] * ACTIONS, [1.0] * ACTIONS
        incarnation = next(self.incarnations)
        hello = Hello(
            (1, 1), incarnation, self.slot, 1, "here", EACH, SIZE, *bounds, "task", recovered
        )
        self.socket.send(protocol.encode_control(hello))
        self.session = self.hear().session

    def speak(self):
        """Send the next RESET or STEP."""
        self.socket.send(self.next())

    def next(self):
        self.sequence += 1
        kind = Kind.RESET if self.sequence == 1 else Kind.STEP
        observations = self.random.normal(size=(EACH, SIZE)).astype("<f4")
        body = (
            observations.tobytes()
            if kind is Kind.RESET
            else protocol.encode_step(self.outcome(observations))
        )
        header = Header(kind, session=self.session, sequence=self.sequence, environments=EACH)
        return protocol.encode(header, body)

    def outcome(self, observations):
        draw = self.random.random(EACH)
        terminated, truncated, failed = (
            draw < 0.08,
            (draw >= 0.08) & (draw < 0.16),
            (draw >= 0.16) & (draw < 0.2),
        )
        ended = terminated | truncated
        rewards = np.where(failed, 0.0, self.random.normal(size=EACH))
        final = self.random.normal(size=(int(ended.sum()), SIZE)).astype(np.float32)
        return Step(rewards, observations, terminated, truncated, ended & False, failed, final)

    def hear(self):
        for _ in range(1000):
            self.server.turn(0.01)
            if self.socket.poll(5):
                return protocol.decode(self.socket.recv())[0]
        raise AssertionError("no answer came")


def state_of(learner, server):
    """All that a kill must not change; the networks' outputs for stored steps change with the gradient steps."""
    storage, running = learner.memory.storage, learner.collector.open_episodes
    places, rows = (
        storage.indices(),
        np.arange(storage.first_id, storage.next_id) % len(storage.start),
    )
    per_step = ("observation", "action", "behaviour_mean", "behaviour_std", "reward", "position")
    state = {name: getattr(storage, name)[places].tolist() for name in per_step}
    state |= {
        name: getattr(storage, name)[rows].tolist()
        for name in ("length", "terminated", "final_observation")
    }
    opened = np.flatnonzero(running.is_open)
    for name in ("observation", "action", "behaviour_mean", "behaviour_std", "reward", "value"):
        array = getattr(running, name)
        ends = running.length + (0 if name == "reward" else running.is_waiting)
        ends = running.length + 1 if name == "observation" else ends
        state[f"running {name}"] = [array[agent, : ends[agent]].tolist() for agent in opened]
    for name in ("length", "is_open", "is_waiting"):
        state[f"running {name}"] = getattr(running, name).tolist()
    for name in ("state", "earlier_return", "earlier_steps"):
        state[f"running {name}"] = getattr(running, name)[opened].tolist()
    counters = learner.counters
    state |= {
        name: getattr(counters, name) for name in ("issued", "received", "episodes", "warm_up")
    }
    state |= {
        "noise": learner.collector.exploration.noise.tolist(),
        "random": learner.generators[0].bit_generator.state,
    }
    return state | json.loads(json.dumps(server.exchange.notes()))


def catch_up(learner):
    while learner.updates_due():
        learner.update()


class Original:
    """A run of two workers, each of which dies now and then, with its state after each record of its log."""

    def __init__(self, kind, folder, records=90, checkpoint_at=35):
        self.folder, self.checkpoint = folder, folder / "checkpoint.npz"
        self.learner = Learner(
            AgentConfig(**KINDS[kind]), BOX, BOX_OF_ACTIONS, agents=2 * EACH, seed=1
        )
        self.log = ExperienceLog(folder / "experience")
        self.log.begin(0)
        self.server = make_server(self.learner, self.log)
        self.records, self.states = [], [state_of(self.learner, self.server)]
        self.kept_at = 0
        self._note()
        random, context = np.random.default_rng(3), zmq.Context()
        self.learner.notes = self.server.exchange.notes()
        self.learner.save(self.checkpoint)
        actors = [Actor(slot, self.server, context, random) for slot in (0, 1)]
        for actor in actors:
            actor.join()
        while len(self.records) < records or self.learner.gradient_steps <= 10:
            for actor in actors:
                actor.speak()
            for actor in actors:
                actor.hear()
            catch_up(self.learner)
            if len(self.records) >= checkpoint_at and not self.kept_at:
                self._keep()
            if random.random() < 0.1:
                slot = int(random.integers(2))
                self.server.liveness.drop(slot)
                unsent = actors[slot].next() if random.random() < 0.7 else b""
                actors[slot] = Actor(slot, self.server, context, random)
                actors[slot].join(unsent)
        context.destroy(linger=0)
        self.server.close("over")

    def _note(self):
        """Keep each record that is written, and the state after it was acted on."""
        append = self.log.append

        def keep(record):
            self.records.append(record)
            append(record)

        def followed(act):
            def act_and_keep(*arguments):
                result = act(*arguments)
                catch_up(self.learner)
                self.states.append(state_of(self.learner, self.server))
                return result

            return act_and_keep

        self.log.append = keep
        for name in ("_begin", "_apply", "_issue", "_end"):  # what follows each of the four records
            setattr(self.server.exchange, name, followed(getattr(self.server.exchange, name)))

    def _keep(self):
        """Save the checkpoint that later rebuilding begins from."""
        self.learner.notes = self.server.exchange.notes()
        self.later = self.checkpoint.with_name("later.npz")
        self.learner.save(self.later)
        self.kept_at = len(self.records)

    def rebuilt(self, upto, kept_at):
        """Rebuild from a checkpoint and the log after it, as it was when it had so many records."""
        learner = Learner.load(self.later if kept_at else self.checkpoint)
        server = make_server(learner, self.log)
        server.restore(learner.notes)
        server.replay(self.records[kept_at:upto])
        catch_up(learner)
        return learner, server


@pytest.fixture(scope="module", params=KINDS)
def original(request, tmp_path_factory):
    return Original(request.param, tmp_path_factory.mktemp(request.param))


def test_log_holds_the_noted_records(original):
    assert list(ExperienceLog(original.folder / "experience").records_since(0)) == original.records
    assert len(original.states) == len(original.records) + 1
    kinds = {type(record).__name__ for record in original.records}
    assert kinds == {"Opened", "Taken", "Answered", "Closed"}
    assert original.learner.gradient_steps > 10


@pytest.mark.parametrize("later", [False, True], ids=["from the beginning", "from a checkpoint"])
def test_kill_at_any_record_changes_nothing(original, later):
    """A replay goes record by record, so one to the end passes through every possible kill."""
    kept_at = original.kept_at if later else 0
    learner, server = original.rebuilt(kept_at, kept_at)
    for upto in range(kept_at, len(original.records) + 1):
        if upto > kept_at:
            server.replay([original.records[upto - 1]])
            catch_up(learner)
        rebuilt = json.loads(json.dumps(state_of(learner, server)))
        before = json.loads(json.dumps(original.states[upto]))
        wrong = [name for name, value in before.items() if rebuilt[name] != value]
        assert not wrong, (upto, original.records[upto - 1 : upto + 1])
        if upto < len(original.records) and isinstance(record := original.records[upto], Answered):
            expected, drawn = (
                decision_of(record),
                learner.decide(np.frombuffer(record.agents, np.int64)),
            )
            assert drawn.random == expected.random
            if learner.gradient_steps == 0:  # the policy is the same, too, so the action is
                np.testing.assert_array_equal(drawn.action, expected.action)
                np.testing.assert_array_equal(drawn.noise, expected.noise)
    server.close("")


def test_missing_record_is_noticed(original):
    """The comparison above can fail: without the last outcome the rebuilt learner differs."""
    upto = max(n for n, record in enumerate(original.records) if isinstance(record, Taken)) + 1
    learner, server = original.rebuilt(upto - 1, 0)
    assert state_of(learner, server) != original.states[upto]
    server.close("")
