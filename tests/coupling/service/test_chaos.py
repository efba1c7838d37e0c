"""Short chaos runs; `make chaos` is the long form. See siege.py for the disturbances and audit.py for the checks."""

import copy
import shutil

import numpy as np
import pytest
from audit import audit
from faults import WORKER
from oracle import ENTRY
from proxy import MessageProxy, TcpProxy
from siege import Siege

from rl_agent.learner import Learner
from rl_agent.replay import Episode
from rl_agent.replay.storage import EXPERIENCE

pytestmark = pytest.mark.slow

BATCHES = {"env_options": {"fail_at": 150}}
SINGLE = {"workers": {"processes": 4, "agents": 4}}


@pytest.fixture
def laid(tmp_path):
    """Make sieges, and end their processes after the test."""
    sieges = []

    def lay(**settings):
        sieges.append(Siege(tmp_path / str(len(sieges)), seed=4, **settings))
        return sieges[-1]

    yield lay
    for siege in sieges:
        siege.close()


@pytest.fixture(scope="module")
def besieged(tmp_path_factory):
    """A finished run whose processes died repeatedly at labelled points, and its audit."""
    siege = Siege(tmp_path_factory.mktemp("besieged") / "run", seed=2, **BATCHES)
    try:
        siege.die_at("learner.before-save", 1)  # before the first checkpoint that has a log
        siege.die_at("learner.torn", 60)
        # and again in the first checkpoint after the torn tail
        siege.die_at("learner.before-rename", 1)
        siege.start()
        siege.wait_steps(200)
        siege.kill_all_amid_records()
        siege.die_at("learner.replaying", 3)
        siege.die_at("learner.before-send", 40)
        siege.start(",".join(f"{point}={30 + 10 * number}" for number, point in enumerate(WORKER)))
        siege.wait_steps(400)
        siege.kill_all()
        # and the agents are split among other workers
        report = siege.finish(overrides=["workers.processes=3"])
    finally:
        siege.close()
    return siege, report


def test_kills_at_labelled_points_lose_nothing(besieged):
    siege, report = besieged
    assert report.is_clean, report
    assert report.returned > 1000
    assert siege.deaths()["worker.stepped"] > 0
    assert len(report.in_window) >= siege.deaths()["worker.stepped"]
    assert not [file for file in siege.run_folder.iterdir() if file.suffix == ".tmp"]


def test_unreliable_message_network_loses_nothing(laid):
    # the proxy reads messages, and makes some of its own
    unencrypted = {"workers": SINGLE["workers"] | {"curve": "never"}}
    siege = laid(
        **unencrypted, agent={"network": "lstm", "window": 3, "env_steps_per_gradient_step": 4.0}
    )
    siege.through(
        lambda target: MessageProxy(target, drop=0.03, duplicate=0.1, hold=0.1, delay=0.3, seed=1)
    )
    siege.start()
    siege.wait_steps(1)
    kinds = "dropped", "duplicated", "held_back", "worker_kills"
    siege.disturb(4, {"kill_worker": 0.5}, needed=kinds)
    siege.kill_learner()
    report = siege.finish(more=200)
    assert report.is_clean, report
    assert all(siege.done()[kind] > 0 for kind in kinds)


def test_unreliable_connections_lose_nothing(laid):
    siege = laid(workers=SINGLE["workers"] | {"dead_after": 600.0})
    siege.through(lambda target: TcpProxy(siege.learner_address, delay=0.005, seed=1))
    siege.start()
    siege.wait_steps(1)
    siege.disturb(
        4, {"cut": 2.0, "swallow": 0.5, "stop_worker": 0.1, "stop_learner": 0.1}, needed=["cuts"]
    )
    report = siege.finish(more=200)
    assert report.is_clean, report
    assert siege.done()["cuts"] > 0
    assert report.returned == report.held  # nobody died


def test_manually_started_workers_outlive_the_learner(laid):
    siege = laid(
        workers={"processes": 3, "agents": 3, "launcher": "none"},
        env_options={"step_seconds": 0.02},
    )
    siege.start()
    siege.wait_steps(60)
    workers = siege.workers()
    for _ in range(2):
        siege.kill_learner()
        siege.start()
        siege.wait_steps(60)
    siege.kill_worker()
    siege.wait_steps(60)
    before = {worker.pid for worker in workers}
    assert len(before & {worker.pid for worker in siege.workers()}) == 2
    report = siege.finish(more=200)
    assert report.is_clean, report
    assert report.returned >= 300


def test_without_outboxes_each_environment_loses_at_most_one_step(laid):
    siege = laid(workers={"outbox": False})
    siege.start()
    siege.wait_steps(1)
    siege.disturb(4, {"kill_worker": 2.0}, needed=["worker_kills"])
    report = siege.finish(more=200)
    assert report.is_clean, report
    assert siege.counts["worker_kills"] > 0
    assert len(report.without_outbox) <= report.environments


def test_multi_agent_step_is_stored_once_or_not_at_all(laid):
    siege = laid(env="parallel:oracle", env_options={"fail_at": 120})
    siege.start()
    siege.wait_steps(1)
    siege.disturb(3, {"kill_worker": 1.0}, needed=["worker_kills"])
    siege.kill_all_amid_records()
    report = siege.finish(more=200)
    assert report.is_clean, report
    assert report.processes > 1
    learner = Learner.load(siege.checkpoint)
    storage = learner.memory.storage
    rows = storage.all_rows()
    assert (
        storage.present[rows] < storage.length[rows]
    ).any()  # some ended before their environment
    for together in rows.reshape(
        -1, 3
    ):  # the agents of an environment stand together, at the same steps
        assert len(set(storage.length[together])) == 1
        assert len({tuple(storage.observation[storage.start[row], :2]) for row in together}) == 1


# --- the audit itself -----------------------------------------------------------------------------------------


@pytest.fixture
def found(besieged, tmp_path):
    """Audit the besieged run after something was changed in its memory or its journals."""
    siege, _ = besieged
    learner, journal = Learner.load(siege.checkpoint), tmp_path / "journal"
    shutil.copytree(siege.journal, journal)

    def look():
        return audit(learner, journal, siege.run_folder / "workers")

    return learner, journal, look


def episode_of(learner, row):
    storage, values = learner.memory.storage, learner.memory.values
    indices = storage.episode_indices(row)
    parts = {name: getattr(storage, name)[indices] for name in EXPERIENCE}
    return Episode(
        **parts,
        value=values.value[indices],
        final_observation=storage.final_observation[row],
        final_value=0.0,
        terminated=False,
    )


def last_journal(journal):
    """Return the journal that was written last: its process lived to the end, so all of its steps are held.

    A journal of fewer than two steps is of an environment made late, or of a process killed early.
    """
    written = (path for path in journal.glob("*.steps") if path.stat().st_size >= 2 * ENTRY.size)
    return max(written, key=lambda path: path.stat().st_mtime_ns)


def test_the_audit_notices_a_lost_step(found):
    _, journal, look = found
    file = last_journal(journal)
    content = file.read_bytes()
    episode, _, _, _, *action = ENTRY.unpack(content[-ENTRY.size :])
    steps = [
        ENTRY.pack(episode + 1, step, 0, 1000.0 * (episode + 1) + step, *action) for step in (1, 2)
    ]
    file.write_bytes(content + b"".join(steps))
    report = look()
    assert len(report.lost) == 2
    assert not report.is_clean


def test_the_audit_notices_a_duplicated_episode_and_its_order(found):
    learner, _, look = found
    memory, storage = learner.memory, learner.memory.storage
    names = [tuple(storage.observation[storage.start[row], 2:]) for row in range(storage.next_id)]
    # one that others came after
    row = next(row for row, name in enumerate(names) if name in names[row + 1 :])
    memory.add(episode_of(learner, row), 0.99, 1.0)
    report = look()
    assert len(report.doubled) == memory.storage.length[row]
    assert report.disordered
    assert not report.is_clean


def test_the_audit_notices_an_invented_step(found):
    _, journal, look = found
    file = last_journal(journal)
    file.write_bytes(file.read_bytes()[: -2 * ENTRY.size])
    report = look()
    assert len(report.invented) == 2
    assert not report.is_clean


@pytest.mark.parametrize("what", ["reward", "action", "terminated", "final_observation"])
def test_the_audit_notices_changed_values(found, what):
    learner, _, look = found
    array = getattr(learner.memory.storage, what)
    before = copy.deepcopy(array[3])
    array[3] = ~before if array.dtype == bool else 0.5 * before
    assert not np.array_equal(array[3], before)
    report = look()
    assert report.wrong
    assert not report.is_clean
