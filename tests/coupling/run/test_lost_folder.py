"""A run folder that is read-only or gone: the reason is reported, and the workers are told of the end."""

import os
import shutil
import signal
import subprocess

import pytest
from shell import GUARD, wait_until

WITHOUT_PRIVILEGES = ["setpriv", "--bounding-set=-dac_override,-dac_read_search,-fowner"]
"""Root may write everywhere, unless it gives that up."""

pytestmark = pytest.mark.slow


def served(shell, *before):
    """Start a learner and two workers by hand, and return them once they train."""
    preset = shell.preset(run={"steps": 10**6}, env_options={"step_seconds": 0.001})
    learner = subprocess.Popen(
        [*before, *shell.command("serve", preset)], cwd=shell.folder, env=shell.environment, text=True,
        stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
    )  # fmt: skip
    shell.started.append(learner)
    connection = shell.run_folder / "connection.json"
    wait_until(connection.exists)
    workers = [shell.start("worker", "--connect", str(connection)) for _ in range(2)]
    # past the first row of statistics, with which TensorBoard begins
    wait_until(lambda: shell.status().get("environment_steps", 0) > 300)
    return learner, workers


def ended(learner, workers):
    """Return what the learner said; the workers have heard of its end."""
    _, said = learner.communicate(timeout=GUARD)
    assert learner.returncode == 1, said
    assert "Traceback" not in said
    for worker in workers:
        _, words = worker.communicate(timeout=GUARD)
        assert worker.returncode == 0, words  # GOODBYE, not patience
    return said.strip().splitlines()[-1]


@pytest.mark.skipif(
    os.geteuid() == 0 and shutil.which("setpriv") is None, reason="needs setpriv for root"
)
def test_run_ends_when_its_folder_becomes_read_only(shell):
    learner, workers = served(shell, *(WITHOUT_PRIVILEGES if os.geteuid() == 0 else ()))
    shell.run_folder.chmod(0o500)
    said = ended(learner, workers)
    shell.run_folder.chmod(0o700)
    assert "Permission denied" in said
    assert ".new" in said  # the status or a table, not the connection file that cannot be removed
    done = shell.run("resume", "runs/run", "run.steps=2000", "workers.launcher=local")
    assert done.returncode == 0, done.stderr


def test_removed_folder_is_not_recreated(shell):
    learner, workers = served(shell)
    gone = shell.folder / "gone"
    shell.run_folder.rename(gone)
    said = ended(learner, workers)
    assert "No such file or directory" in said
    assert not shell.run_folder.exists()
    gone.rename(shell.run_folder)
    resumed = shell.start("resume", "runs/run", "workers.launcher=local")
    wait_until(lambda: shell.status()["epoch"] == 1)
    resumed.send_signal(signal.SIGINT)
    _, said = resumed.communicate(timeout=GUARD)
    assert resumed.returncode == 130, said
