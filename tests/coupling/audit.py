"""Compare the steps that oracle environments returned with those that the learner holds.

The journals of the oracles are the truth: every step that returned. The learner holds a step in its memory, or in the
episode that an agent is in. Nothing may be forgotten: the memory has to be larger than the run.
"""

from collections import Counter
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from oracle import ENTRY, TERMINATED, reward_of

from coupling.wire.bodies import read_body
from coupling.wire.protocol import Step, decode
from coupling.worker.outbox import read_outbox

WORDS = np.dtype(
    [("episode", "<u4"), ("step", "<u4"), ("flags", "u1"), ("reward", "<f8"), ("action", "<f4", 2)]
)
assert WORDS.itemsize == ENTRY.size
SIZE = 4  # of an observation


@dataclass
class Audit:
    """What was found; ``lost``, ``doubled``, ``invented``, ``disordered`` and ``wrong`` have to be empty.

    Attributes
    ----------
    returned, held
        Steps in the journals, and of those the ones that the learner holds.
    processes
        Worker processes that stepped at least once.
    lost
        Steps that returned and are not held, by name, episode and step.
    in_window
        Lost ones between the return of the step and the write of the outbox, proven: it was the last step of a process
        that was killed, whose outbox ended with the step before. Nobody can close this window; they do not count as
        lost.
    in_batch
        Of those, the ones whose process was still stepping other environments of its batch.
    without_outbox
        Lost ones of a run without outboxes: the last step of an environment of a worker that died, at most one each.
    doubled, invented
        Held more than once; held and never returned.
    disordered
        Episodes that stand in the memory before an earlier one of the same environment.
    wrong
        Held with another reward, action, end of the episode or final observation than the step returned.
    """

    returned: int = 0
    held: int = 0
    processes: int = 0
    environments: int = 0
    lost: list = field(default_factory=list)
    in_window: list = field(default_factory=list)
    in_batch: int = 0
    without_outbox: list = field(default_factory=list)
    doubled: list = field(default_factory=list)
    invented: list = field(default_factory=list)
    disordered: list = field(default_factory=list)
    wrong: list = field(default_factory=list)

    @property
    def is_clean(self) -> bool:
        return not (self.lost or self.doubled or self.invented or self.disordered or self.wrong)

    def counts(self) -> dict[str, int]:
        return {
            key: value if isinstance(value, int) else len(value)
            for key, value in vars(self).items()
        }

    def __str__(self) -> str:
        found = {
            key: value[:5] for key, value in vars(self).items() if isinstance(value, list) and value
        }
        return f"{self.counts()}; the first of each: {found}"


@dataclass(frozen=True)
class Piece:
    """Steps of one episode that the learner holds in a row: those after ``begin`` up to ``end``."""

    name: str
    episode: int
    begin: int
    end: int
    terminated: bool | None  # None while it is running
    reward: np.ndarray
    action: np.ndarray


def name_of(observation) -> str:
    return f"{int(observation[2]):06x}{int(observation[3]):06x}"


def audit(learner, journal: Path, outboxes: Path | None) -> Audit:
    """Compare the memory and the running episodes of a learner with the journals of the oracles.

    Parameters
    ----------
    learner
        The learner after the run.
    journal
        Folder of the journals.
    outboxes
        Folder of the workers' outboxes as they were left; None for a run without them.
    """
    report = Audit()
    storage = learner.memory.storage
    assert storage.first_id == 0, (
        "the memory of an audited run must be large enough to forget nothing"
    )
    pieces: dict[str, dict[int, list[Piece]]] = {}
    latest: dict[str, int] = {}
    for piece in held_pieces(learner, report):
        if piece.terminated is not None:
            if piece.episode < latest.get(piece.name, 0):
                report.disordered.append((piece.name, piece.episode))
            latest[piece.name] = piece.episode
        pieces.setdefault(piece.name, {}).setdefault(piece.episode, []).append(piece)
    journals = {path.stem: read_journal(path) for path in sorted(journal.glob("*.steps"))}
    steps_of = {stem: len(entries) for stem, entries in journals.items()}
    outbox_ends = ends_of_outboxes(journal, outboxes, learner.agents_per_env)
    report.processes = len({stem.partition("-")[0] for stem, steps in steps_of.items() if steps})
    report.environments = len(journals)
    for stem, entries in journals.items():
        process, _, name = stem.partition("-")
        lost = compare(name, entries, pieces.pop(name, {}), report)
        for episode, step in lost:
            is_last = len(entries) > 0 and (episode, step) == (
                entries[-1]["episode"],
                entries[-1]["step"],
            )
            if is_last and outboxes is None:
                report.without_outbox.append((name, episode, step))
            elif is_last and (name, episode, step - 1) in outbox_ends:
                report.in_window.append((name, episode, step))
                others = [steps for other, steps in steps_of.items() if other.startswith(process)]
                report.in_batch += min(others) < len(entries)
            else:
                report.lost.append((name, episode, step))
    for name, episodes in pieces.items():
        report.invented += steps_in(name, episodes)
    return report


def read_journal(path: Path) -> np.ndarray:
    """Read the whole entries of a journal; a kill may have torn the last one."""
    content = path.read_bytes()
    return np.frombuffer(content[: len(content) // ENTRY.size * ENTRY.size], WORDS)


def held_pieces(learner, report):
    """Give all episodes of the memory in their order, then the running ones; each checked by itself."""
    storage, running, space = (
        learner.memory.storage,
        learner.collector.open_episodes,
        learner.action_map,
    )
    for episode_id in range(storage.first_id, storage.next_id):
        row = episode_id % len(storage.start)
        slots = (storage.start[row] + np.arange(storage.present[row])) % storage.capacity
        observed = np.vstack([storage.observation[slots], storage.final_observation[row]])
        action = np.clip(space(storage.action[slots]), -1, 1)
        yield piece_of(
            observed,
            storage.reward[slots],
            action,
            bool(storage.terminated[row]),
            report,
        )
    for agent in np.flatnonzero(running.length):
        steps, gone = running.length[agent], running.gone_after[agent]
        if gone >= 0:  # it has ended, and others of its environment go on
            observed, action = (
                running.observation[agent, : gone + 1],
                np.clip(space(running.action[agent, :gone]), -1, 1),
            )
            yield piece_of(observed, running.reward[agent, :gone].copy(), action, True, report)
            continue
        observed, action = (
            running.observation[agent, : steps + 1],
            np.clip(space(running.action[agent, :steps]), -1, 1),
        )
        yield piece_of(observed, running.reward[agent, :steps].copy(), action, None, report)


def piece_of(observed, reward, action, terminated, report) -> Piece:
    name, episode, begin = name_of(observed[0]), int(observed[0, 0]), int(observed[0, 1])
    steps = begin + np.arange(len(observed))
    expected = np.column_stack(
        [np.full(len(steps), episode), steps, np.tile(observed[0, 2:], (len(steps), 1))]
    )
    if begin or not np.array_equal(observed, expected):
        report.wrong.append((name, episode, f"observations {observed.tolist()}"))
    return Piece(name, episode, begin, int(steps[-1]), terminated, reward, action)


def compare(name, entries, pieces, report):
    """Compare the journal of one environment with what is held of it; returns what is missing."""
    lost = []
    report.returned += len(entries)
    assert np.array_equal(
        entries["reward"], reward_of(entries["episode"].astype(float), entries["step"])
    )
    for episode in np.unique(entries["episode"]):
        returned = entries[entries["episode"] == episode]
        assert np.array_equal(returned["step"], 1 + np.arange(len(returned)))
        held = Counter(
            step
            for piece in pieces.get(episode, [])
            for step in range(piece.begin + 1, piece.end + 1)
        )
        report.doubled += [(name, int(episode), step) for step, times in held.items() if times > 1]
        report.invented += [(name, int(episode), step) for step in held if step > len(returned)]
        lost += [(int(episode), step) for step in range(1, len(returned) + 1) if not held[step]]
        report.held += sum(step <= len(returned) for step in held)
        for piece in pieces.pop(episode, []):
            if piece.end <= len(returned):
                differences(piece, returned, report)
    report.invented += steps_in(name, pieces)
    return lost


def steps_in(name, episodes):
    """Name every step of the pieces of episodes of one environment."""
    pieces = [piece for of_episode in episodes.values() for piece in of_episode]
    return [
        (name, piece.episode, step)
        for piece in pieces
        for step in range(piece.begin + 1, piece.end + 1)
    ]


def differences(piece, returned, report):
    """Note where a piece is not what the steps of its episode returned."""
    own = returned[piece.begin : piece.end]
    where = piece.name, piece.episode
    if not np.array_equal(piece.reward, own["reward"]):
        report.wrong.append((*where, "rewards"))
    if not np.array_equal(piece.action, own["action"]):
        report.wrong.append((*where, "actions"))
    ended, terminal = own["flags"][-1] != 0, bool(own["flags"][-1] & TERMINATED)
    if piece.terminated is None:
        if ended:
            report.wrong.append((*where, "an ended episode that is held as running"))
    elif piece.terminated != terminal:
        report.wrong.append((*where, f"terminated is {piece.terminated}, was {terminal}"))


def ends_of_outboxes(
    journal: Path, outboxes: Path | None, agents_per_env: int
) -> set[tuple[str, int, int]]:
    """Return where the outboxes ended that successors found and that were left: what the next step starts from."""
    frames = [path.read_bytes() for path in journal.glob("*.found")]
    if outboxes is not None:
        frames += [read_outbox(path.with_suffix("")) for path in outboxes.glob("outbox-*.0")]
    ends = set()
    for frame in filter(None, frames):
        found = read_body(*decode(frame), SIZE, agents_per_env)
        observations = found.observations if isinstance(found, Step) else found
        rows = observations.reshape(-1, SIZE)
        ends |= {(name_of(row), int(row[0]), int(row[1])) for row in rows}
    return ends


def summary(audits) -> dict[str, int]:
    """Add up the counts of several audits."""
    total: Counter[str] = Counter()
    for each in audits:
        total.update(each.counts())
    return dict(total)


def audit_memory(learner):
    """Check that no transition is in the memory twice and none is missing inside an episode.

    The oracle's reward is 1000 e + s, its observation (e, s, name, name): every stored episode has to be the steps
    1, 2, 3, ... of one episode of one environment.
    """
    storage = learner.memory.storage
    places = storage.indices()
    episode, step, *names = storage.observation[places].T
    reward = storage.reward[places]
    np.testing.assert_array_equal(reward, 1000 * episode + step + 1)
    identity = set(zip(*names, episode, step, strict=True))
    assert len(identity) == len(places)
    for *name, e, s in identity:
        assert s == 0 or (*name, e, s - 1) in identity
    return len(places)
