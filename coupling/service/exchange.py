"""Exactly-once exchange of steps and actions with the workers: ledger, log and learner, without socket or clock.

An incoming message is classified by the ledger, written to the experience log, and only then given to the learner; an
action is sampled, written to the log, and only then issued and sent. Live messages and those of a log go through the
same methods, so a learner that is killed at any point is rebuilt by :meth:`Exchange.replay`.

When a message arrives relative to the gradient steps depends on how busy the machine is. In a synchronous exchange this
has no effect: messages are written to the log at once, but given to the learner, in the order of the agents, only when
all workers have reported and no gradient step is due; then all of them are answered together.

A step that a learner cannot learn from does not reach it, either live or from the log. Like the step of a failed
environment, it is not a transition, and its episode ends at the step before.
"""

import secrets
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

import numpy as np

from coupling.service.experience import (
    Answered,
    Closed,
    ExperienceLog,
    Opened,
    Record,
    Taken,
    decision_of,
)
from coupling.service.ledger import Entry, Ledger
from coupling.service.sessions import Counts
from coupling.service.terms import Learning
from coupling.wire.bodies import read_body
from coupling.wire.protocol import Header, Kind, Step, decode, encode
from rl_agent.normalization.states import LARGEST_NUMBER

__all__ = ["Exchange"]


class _Message(NamedTuple):
    """A decoded RESET or STEP: its frame, its header, and observations or a step."""

    frame: bytes
    header: Header
    outcome: np.ndarray | Step


class Exchange:
    """Sessions, messages and actions of one learner.

    Parameters
    ----------
    learner
        The learner.
    log
        The experience log, to which everything is written before it takes effect.
    agents_of_each
        Number of environments of each worker.
    observation_size
        Floats in an observation of an agent.
    limit
        Environment steps after which no more actions are given.
    synchronous
        Whether the learner's results are independent of when messages arrive.
    agents_per_env
        Agents that act together in an environment.

    Attributes
    ----------
    ledger
        The open sessions and the messages accepted of each.
    agent_steps
        Outcomes received from each agent, int64 (agents,).
    ended_episodes
        Number of episodes that ended, not counting failures.
    counts
        Counters of the service.
    unlearnable
        Agents whose current observation cannot be learned from, bool (agents,).
    complaints
        Sessions whose workers sent such a step; emptied by whoever reports them.
    """

    def __init__(
        self,
        learner: Learning,
        log: ExperienceLog,
        agents_of_each: Sequence[int],
        observation_size: int,
        limit: int,
        *,
        synchronous: bool = False,
        agents_per_env: int = 1,
    ) -> None:
        self._learner, self._log, self._limit = learner, log, limit
        self._sizes, self._synchronous = (observation_size, agents_per_env), synchronous
        self._first_agents = np.cumsum([0, *agents_of_each])
        self._accepted: list[_Message] = []
        self._written: list[_Message] = []
        self.ledger = Ledger()
        self.agent_steps = np.zeros(self._first_agents[-1], np.int64)
        self.unlearnable = np.zeros(self._first_agents[-1], bool)
        self.complaints: list[int] = []
        self.ended_episodes = 0
        self.counts = Counts()

    @property
    def finished(self) -> bool:
        """Whether the limit is reached, all outcomes have arrived and no gradient step is due."""
        return (
            self._learner.environment_steps >= self._limit
            and not any(entry.acting for entry in self.ledger)
            and not self._learner.updates_due()
        )

    @property
    def is_pending(self) -> bool:
        """Whether there are messages that have not been given to the learner."""
        return bool(self._accepted or self._written)

    @property
    def is_ready(self) -> bool:
        """Whether there are such messages, and nothing is left to wait for."""
        return self.is_pending and (
            not self._synchronous or (self._all_wait() and not self._learner.updates_due())
        )

    def _all_wait(self) -> bool:
        """Return whether every worker has a message that has not been answered."""
        return sum(entry.waiting for entry in self.ledger) == len(self._first_agents) - 1

    # --- sessions -------------------------------------------------------------------------------------------

    def open(self, incarnation: int, slot: int, environments: int) -> Entry:
        """Open the session of a process, as a worker that has none."""
        opened = Opened(
            secrets.randbits(63) | 1, incarnation, slot, int(self._first_agents[slot]), environments
        )
        self._log.append(opened)
        return self._begin(opened)

    def close(self, session: int) -> None:
        """Close a session permanently; its open episodes are kept as truncated."""
        self.hand_over()
        self._log.append(Closed(session))
        self._end(session)

    def _begin(self, opened: Opened) -> Entry:
        return self.ledger.open(
            opened.session, opened.incarnation, opened.slot, opened.first_agent, opened.environments
        )  # fmt: skip

    def _end(self, session: int) -> None:
        entry = self.ledger[session]
        self.ledger.close(session)
        if entry.sequence:
            self._learner.abandon(entry.agents)

    # --- incoming messages --------------------------------------------------------------------------------------

    def accept(self, frame: bytes, header: Header, body: bytes) -> None:
        """Accept a message that the ledger says to take; it takes effect in :meth:`settle`.

        Raises
        ------
        ProtocolError
            If its body does not match its header; nothing has changed then.
        """
        message = _Message(frame, header, read_body(header, body, *self._sizes))
        self.ledger.take(header)
        self._accepted.append(message)

    def settle(self) -> None:
        """Write the accepted messages to the log, and give them to the learner if it is ready for them."""
        if self._accepted:
            self._log.append(Taken([message.frame for message in self._accepted]))
            self._written += self._accepted
            self._accepted = []
        if self.is_ready:
            self._give()

    def hand_over(self) -> None:
        """Write the accepted messages to the log and give them to the learner now, after the gradient steps due."""
        self.settle()
        self._give()

    def _give(self) -> None:
        """Give the learner the messages that were written to the log."""
        messages, self._written = self._written, []
        if not messages:
            return
        if self._synchronous:
            while self._learner.updates_due():
                self._learner.update()
            messages.sort(key=lambda message: self.ledger[message.header.session].first_agent)
        self._apply(messages)

    def flush(self) -> None:
        """Flush the log; call it before any worker is told that a message was accepted."""
        self._log.flush()

    def _apply(self, messages: list[_Message]) -> None:
        steps: list[tuple[Entry, Step]] = []
        for _, header, outcome in messages:
            entry = self.ledger[header.session]
            if isinstance(outcome, Step):
                steps.append((entry, outcome))
            else:
                self._learner.begin(entry.agents, self._seen(entry.agents, outcome))
        if steps:
            self._observe(steps)

    def _observe(self, steps: list[tuple[Entry, Step]]) -> None:
        """Give the learner the outcomes of all workers that reported, in one call."""
        agents = np.concatenate([entry.agents for entry, _ in steps])
        ended = np.concatenate([step.ended for _, step in steps])
        failed = np.concatenate([step.failed for _, step in steps])
        first = np.concatenate([step.observations for _, step in steps])
        resulting = first
        if ended.any():
            resulting = first.copy()
            resulting[ended] = np.concatenate([step.final for _, step in steps])
        rewards = np.concatenate([step.rewards for _, step in steps])
        refused = ~failed & (self.unlearnable[agents] | ~self._learner.learnable(resulting))
        fine = np.abs(rewards) <= LARGEST_NUMBER
        refused |= ~failed & ~(fine if fine.ndim == 1 else fine.all(axis=1))
        if refused.any():
            self._note_refused(steps, refused)
        gone = failed | refused
        came = ~gone
        self.ended_episodes += int((ended & came).sum())
        self._learner.observe(
            agents[came],
            rewards[came],
            np.concatenate([step.terminated for _, step in steps])[came],
            np.concatenate([step.truncated for _, step in steps])[came],
            resulting[came],
            *(agent_ended[came] for agent_ended in _agents_of(steps)),
        )
        if gone.any():
            self._learner.abandon(agents[gone])
            self.counts.failed += int(failed.sum())
        restarting = ended | gone
        if restarting.any():
            self._learner.begin(
                agents[restarting], self._seen(agents[restarting], first[restarting])
            )
            self.counts.diverged += int(sum(step.diverged.sum() for _, step in steps))
        self.agent_steps[agents[came]] += 1

    def _seen(self, agents: np.ndarray, observations: np.ndarray) -> np.ndarray:
        """Return first observations of episodes; one that cannot be learned from is noted and replaced by zeros."""
        learnable = self._learner.learnable(observations)
        self.unlearnable[agents] = ~learnable
        return np.where(
            learnable.reshape(-1, *[1] * (observations.ndim - 1)), observations, np.float32(0.0)
        )

    def _note_refused(self, steps: list[tuple[Entry, Step]], refused: np.ndarray) -> None:
        """Count steps that cannot be learned from, and note their sessions."""
        self.counts.unlearnable += int(refused.sum())
        begin = 0
        for entry, _ in steps:
            end = begin + entry.environments
            if refused[begin:end].any():
                self.complaints.append(entry.session)
            begin = end

    # --- outgoing messages --------------------------------------------------------------------------------------

    def answer(self, waiting: list[Entry], epoch: int) -> list[Entry]:
        """Give an action to all waiting agents, with one inference, unless learning lags behind or the limit is near.

        Returns
        -------
        list of Entry
            The sessions that were answered; the frame to send is their ``answer``.
        """
        if not waiting or not self._learner.may_act():
            return []
        if self._synchronous and (
            len(waiting) < len(self._first_agents) - 1
            or self.is_pending
            or self._learner.updates_due()
        ):
            return []
        out = sum(entry.environments for entry in self.ledger if entry.acting)
        room = self._limit - self._learner.environment_steps - out
        chosen = []
        for entry in sorted(waiting, key=lambda entry: entry.first_agent):
            if room > 0:
                chosen.append(entry)
                room -= entry.environments
        if not chosen:
            return []
        decision = self._learner.decide(np.concatenate([entry.agents for entry in chosen]))
        sessions = [entry.session for entry in chosen]
        self._log.append(Answered.of(sessions, epoch, self._learner.gradient_steps, decision))
        self._log.flush()
        self._issue(sessions, np.asarray(self._learner.issue(decision), "<f4"), epoch)
        self.counts.batches += 1
        self.counts.round_trips += sum(entry.environments for entry in chosen)
        return chosen

    def _issue(self, sessions: list[int], actions: np.ndarray, epoch: int) -> None:
        """Note the ACTION of each session in the ledger; ``actions`` has the rows of all sessions, in order."""
        begin = 0
        for number in sessions:
            entry = self.ledger[number]
            end = begin + entry.environments
            header = Header(
                Kind.ACTION,
                session=number,
                sequence=entry.sequence,
                acknowledgement=entry.sequence,
                environments=entry.environments,
                epoch=epoch,
                minor=entry.minor,
            )
            self.ledger.answer(number, encode(header, actions[begin:end].tobytes()))
            begin = end

    # --- continuing after a checkpoint ------------------------------------------------------------------------

    def notes(self) -> dict[str, Any]:
        """Return the state of the service that belongs into a checkpoint."""
        return {
            "ledger": self.ledger.save(),
            "agent_steps": self.agent_steps.tolist(),
            "unlearnable": np.flatnonzero(self.unlearnable).tolist(),
        }

    def restore(self, notes: dict[str, Any]) -> None:
        """Restore the result of :meth:`notes`, before anything else is done."""
        self.ledger.restore(notes["ledger"])
        self.agent_steps[:] = notes["agent_steps"]
        self.unlearnable[:] = False
        self.unlearnable[notes.get("unlearnable", [])] = True

    def replay(self, records: Iterable[Record]) -> int:
        """Replay the log since the checkpoint; gradient steps are done as they become due.

        Returns
        -------
        int
            Number of recovered environment steps.
        """
        before = self._learner.environment_steps
        for record in records:
            if isinstance(record, Opened):
                self._begin(record)
            elif isinstance(record, Taken):
                read = [(frame, *decode(frame)) for frame in record.frames]
                for _, header, _ in read:
                    self.ledger.take(header)
                self._written += [
                    _Message(frame, header, read_body(header, body, *self._sizes))
                    for frame, header, body in read
                ]
                if not self._synchronous:
                    self._give()
            elif isinstance(record, Answered):
                self._give()
                while not self._learner.may_act():
                    self._learner.update()
                actions = np.asarray(self._learner.issue(decision_of(record)), "<f4")
                self._issue(record.sessions, actions, record.epoch)
            else:
                self._give()
                self._end(record.session)
        self._give()
        return self._learner.environment_steps - before

    def fits(self) -> bool:
        """Return whether the workers of the open sessions have the same agents as those of this run."""
        sizes = np.diff(self._first_agents)
        return all(
            entry.slot < len(sizes)
            and (entry.first_agent, entry.environments)
            == (self._first_agents[entry.slot], sizes[entry.slot])
            for entry in self.ledger
        )


def _agents_of(steps: list[tuple[Entry, Step]]) -> list[np.ndarray]:
    """Return which agents of all environments have ended, as a list of one bool array (n, N); empty if without axis."""
    ended = [step.agent_ended for _, step in steps if step.agent_ended is not None]
    return [np.concatenate(ended)] if ended else []
