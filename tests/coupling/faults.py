"""Deaths at labelled points, put into the production code from outside while tests run.

``FLOWSIM_FAULTS="worker.noted=20,learner.before-save=3"`` in the environment of a process makes it kill itself by
SIGKILL when it passes a point for the n-th time; the points are the keys of ``WORKER`` and ``LEARNER``. Each death is
noted in the file that ``FLOWSIM_FAULT_NOTES`` names. ``FLOWSIM_PROXY=PORT`` makes a learner send its workers to a
proxy: the connection file then names that port of this machine, and ``direct.json`` beside it where the learner is.
"""

import functools
import os
import signal
import sys
import types
from collections import Counter

PASSED = Counter()
ARMED = []


def strike(point):
    """Die if it is time: called whenever a point is passed."""
    PASSED[point] += 1
    if PASSED[point] == wanted().get(point):
        die(point)


def wanted():
    words = filter(None, os.environ.get("FLOWSIM_FAULTS", "").split(","))
    return {point: int(count) for point, _, count in (word.partition("=") for word in words)}


def die(point):
    notes = os.environ.get("FLOWSIM_FAULT_NOTES")
    if notes:
        file = os.open(notes, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        os.write(file, f"{point}\n".encode())
    os.kill(os.getpid(), signal.SIGKILL)


def around(owner, name, *, before="", after="", when=lambda *args, **kwargs: True):
    """Put points before and after a function, passed if ``when`` accepts its arguments."""
    function = getattr(owner, name)

    @functools.wraps(function)
    def struck(*args, **kwargs):
        counts = when(*args, **kwargs)
        if before and counts:
            strike(before)
        result = function(*args, **kwargs)
        if after and counts:
            strike(after)
        return result

    setattr(owner, name, struck)


def arm():
    """Put in what the environment of this process asks for; does nothing otherwise."""
    points = wanted()
    if ARMED:  # the task was imported in a process that armed itself
        return
    ARMED.append(True)
    module, learns = worker_module(), "coupling.run.training" in sys.modules
    if any(point in WORKER for point in points) and module:
        arm_worker(module)
    elif any(point in LEARNER for point in points) and learns:
        arm_learner()
    if os.environ.get("FLOWSIM_PROXY") and learns:
        lead_through_proxy(int(os.environ["FLOWSIM_PROXY"]))


def worker_module():
    """Return the module whose code makes this process a worker, by whatever way it was started; None in others."""
    is_one = getattr(sys.modules["__main__"].__spec__, "name", "") == "coupling.worker.__main__"
    is_one |= sys.argv[1:2] == ["worker"]  # of the command
    stood_by = "coupling.worker.prewarm" in sys.modules
    return sys.modules["coupling.worker.process"] if is_one or stood_by else None


WORKER = {
    "worker.stepped": "the step returned, the outbox does not have it yet",
    "worker.noted": "the outbox has the step, it was not sent yet",
    "worker.sent": "the step was given to the socket",
    "worker.told": "the action came, the step has not begun",
}

LEARNER = {
    "learner.before-taken": "steps came and are not in the log yet",
    "learner.after-taken": "the log has the steps, the memory has not",
    "learner.before-answered": "actions were drawn and are not in the log yet",
    "learner.after-answered": "the log has the actions, they were not issued",
    "learner.before-send": "the actions were issued and not sent",
    "learner.torn": "in the middle of writing a record",
    "learner.before-save": "a new segment has begun, its checkpoint has not",
    "learner.before-rename": "the checkpoint is whole beside the old one",
    "learner.after-rename": "the new checkpoint is there, and the old segments too",
    "learner.before-forget": "the same, a little later",
    "learner.replaying": "in the replay of a resume",
}


def arm_worker(module):
    from coupling.wire.protocol import Kind
    from coupling.worker.outbox import Outbox

    step = int(Kind.STEP)
    around(module.Worker, "_step", after="worker.stepped")
    around(Outbox, "write", after="worker.noted", when=lambda box, frame: frame[6] == step)
    around(
        module.LearnerConnection,
        "send",
        after="worker.sent",
        when=lambda line, frame: frame[6] == step,
    )
    around(module, "decode_actions", after="worker.told")


def arm_learner():
    from coupling.service.experience import Answered, ExperienceLog, Taken
    from coupling.service.server import Server
    from coupling.wire.protocol import Kind
    from rl_agent.learner import Learner
    from rl_agent.saving import checkpoint

    def is_of(kind):
        return lambda log, record: isinstance(record, kind)

    def replayed(log, *where, **options):
        for record in records_since(log, *where, **options):
            strike("learner.replaying")
            yield record

    def torn(log, content):
        PASSED["learner.torn"] += 1
        if PASSED["learner.torn"] == wanted().get("learner.torn"):
            os.write(log._file, content[: len(content) // 2])
            die("learner.torn")
        write(log, content)

    records_since, write = ExperienceLog.records_since, ExperienceLog._write
    ExperienceLog.records_since, ExperienceLog._write = replayed, torn
    around(
        ExperienceLog,
        "append",
        before="learner.before-taken",
        after="learner.after-taken",
        when=is_of(Taken),
    )
    answered = "learner.before-answered", "learner.after-answered"
    around(ExperienceLog, "append", before=answered[0], after=answered[1], when=is_of(Answered))
    around(
        Server,
        "_send",
        before="learner.before-send",
        when=lambda server, route, frame: frame[6] == Kind.ACTION,
    )
    around(
        Learner,
        "save",
        before="learner.before-save",
        when=lambda learner, path: bool(learner.notes),
    )
    around(ExperienceLog, "forget_before", before="learner.before-forget")
    around(checkpoint, "_flush_folder", before="learner.after-rename")
    checkpoint.os = types.SimpleNamespace(**vars(os))
    around(checkpoint.os, "replace", before="learner.before-rename")


def keep_found_outbox(file):
    """Copy what a worker finds in its outbox: the proof of where the process before it ended."""
    from coupling.worker.outbox import Outbox

    if getattr(Outbox, "copied", False):
        return
    Outbox.copied, opened = True, Outbox.__init__

    def open_and_copy(box, *args, **kwargs):
        opened(box, *args, **kwargs)
        file.write_bytes(box.recovered)

    Outbox.__init__ = open_and_copy


def lead_through_proxy(port):
    import msgspec

    from coupling.run import serving

    write = serving.write_connection

    def write_both(path, connection, *rest):
        write(path.with_name("direct.json"), connection, *rest)
        write(path, msgspec.structs.replace(connection, endpoint=f"tcp://127.0.0.1:{port}"), *rest)

    serving.write_connection = write_both
