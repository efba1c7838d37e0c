"""A run folder is private whatever the umask: with a session number read there anybody could pose as a worker."""

import os
import signal
import stat
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from shell import ROOT, wait_until

from coupling.errors import RunError
from coupling.files import Table, make_private, refuse_foreign, write_atomically
from coupling.run.folder import RunFolder
from coupling.run.run import resume
from coupling.service.experience import ExperienceLog
from coupling.settings.config import load_config
from coupling.wire.connection import read_connection
from coupling.worker.outbox import Outbox
from rl_agent.saving.checkpoint import write_checkpoint

SHARED_BY_ITS_FOLDER = "tensorboard"  # written by TensorBoard; it holds no session number


class Said:
    def __init__(self):
        self.lines = []

    def say(self, text):
        self.lines.append(text)

    def progress(self, status):
        pass


def mode(path: Path) -> int:
    return stat.S_IMODE(path.lstat().st_mode)


def open_to_others(folder: Path) -> list[str]:
    """List what anybody but the owner may read, write or enter in a folder."""
    found = [folder, *folder.rglob("*")]
    return [
        str(path)
        for path in found
        if mode(path) & 0o077 and path.parent.name != SHARED_BY_ITS_FOLDER
    ]


@pytest.fixture(params=[0, 0o022], ids=["umask 0", "umask 022"])
def umask(request):
    before = os.umask(request.param)
    yield request.param
    os.umask(before)


def test_files_in_a_run_folder_are_private(shell):
    """A real run under a umask of 0, checked during and after the run; then an older folder with lax modes."""
    preset = shell.preset(workers={"transport": "ipc"}, run={"steps": 10**6})
    command = shell.command("train", preset)
    learner = subprocess.Popen(
        command, cwd=shell.folder, env=shell.environment, umask=0, stderr=subprocess.PIPE, text=True
    )
    shell.started.append(learner)
    run = shell.run_folder
    wanted = {
        "checkpoint.npz",
        "connection.json",
        "status.json",
        "starts.jsonl",
        "config.yaml",
        "episodes.csv",
    }
    wanted |= {".lock", "worker-0.stderr", "outbox-1.1"}
    wait_until(lambda: wanted <= {path.name for path in run.rglob("*")}, seconds=300)
    endpoint = read_connection(run / "connection.json").endpoint
    sockets = Path(endpoint.removeprefix("ipc://")).parent
    assert sockets.is_absolute()  # workers may be started in another folder
    assert mode(sockets) == 0o700
    assert list(run.glob("experience/*.log"))
    assert open_to_others(run) == []
    learner.send_signal(signal.SIGINT)
    learner.communicate(timeout=300)
    assert open_to_others(run) == []

    for path in [run, *run.rglob("*")]:
        path.chmod(0o755 if path.is_dir() else 0o644)
    screen, other = Said(), RunFolder(run)
    other.lock()
    # it is made private before anything else is done
    with pytest.raises(RunError, match="another process"):
        resume(run, [], screen)
    other.unlock()
    assert [path for path in (run, *run.rglob("*")) if mode(path) & 0o077] == []
    assert "other users could read" in screen.lines[0]
    assert "mode 0755" in screen.lines[0]


def test_every_writer_makes_private_files(tmp_path, umask):
    write_atomically(tmp_path / "status.json", b"{}")
    Table(tmp_path / "episodes.csv").append([{"a": 1}])
    table = Table(tmp_path / "episodes.csv")
    table.append([{"a": 1, "b": 2}])
    write_checkpoint(tmp_path / "checkpoint.npz", {"a": np.zeros(3)}, {})
    log = ExperienceLog(tmp_path / "experience")
    log.begin(1)
    log.close()
    Outbox(tmp_path / "outbox", 10).close()
    assert [path.name for path in tmp_path.rglob("*") if mode(path) & 0o077] == []
    assert len(list(tmp_path.iterdir())) == 6


def write_bytes(path):
    write_atomically(path, b"new")


def write_arrays(path):
    write_checkpoint(path, {"a": np.zeros(3)}, {})


def write_rows(path):
    Table(path).append([{"a": 1}])


@pytest.mark.parametrize(
    ("write", "beside"),
    [(write_bytes, ".{}.new"), (write_arrays, ".{}.tmp"), (write_rows, ".{}.new")],
)
@pytest.mark.parametrize("planted", ["link", "dangling link", "stale file"])
def test_file_at_the_temporary_name_is_neither_followed_nor_an_obstacle(
    tmp_path, write, beside, planted
):
    target, mine = tmp_path / "file", tmp_path / "precious"
    temporary = tmp_path / beside.format(target.name)
    if planted == "stale file":
        temporary.write_bytes(b"of a process that was killed")
        temporary.chmod(0o666)
    else:
        temporary.symlink_to(mine)
        if planted == "link":
            mine.write_bytes(b"precious")
    write(target)
    assert not target.is_symlink()
    assert target.stat().st_size
    assert mode(target) == 0o600
    assert not os.path.lexists(temporary)
    assert mine.exists() == (planted == "link")
    assert not mine.exists() or mine.read_bytes() == b"precious"


def test_repeatedly_recreated_temporary_file_is_an_error(tmp_path, monkeypatch):
    mine = tmp_path / "precious"
    (tmp_path / ".file.new").symlink_to(mine)
    # it is back before the file is opened
    monkeypatch.setattr(Path, "unlink", lambda path, missing_ok=False: None)
    with pytest.raises(FileExistsError):
        write_atomically(tmp_path / "file", b"new")
    assert not mine.exists()


def test_symlink_in_place_of_an_appended_file_is_not_followed(tmp_path):
    mine = tmp_path / "precious"
    folder = tmp_path / "experience"
    folder.mkdir()
    (folder / "00000001.log").symlink_to(mine)
    with pytest.raises(OSError, match="symbolic link"):
        ExperienceLog(folder).begin(1)
    (tmp_path / "outbox.0").symlink_to(mine)
    with pytest.raises(OSError, match="symbolic link"):
        Outbox(tmp_path / "outbox", 10)
    assert not mine.exists()


def test_a_lax_folder_is_made_private_without_following_links(tmp_path):
    outside = tmp_path / "outside"
    outside.write_text("shared on purpose")
    outside.chmod(0o644)
    run = tmp_path / "run"
    (run / "experience").mkdir(parents=True)
    (run / "experience" / "1.log").write_text("session 5")
    (run / "shared").symlink_to(outside)
    run.chmod(0o755)
    assert make_private(run) == 0o055
    assert [
        path for path in (run, *run.rglob("*")) if not path.is_symlink() and mode(path) & 0o077
    ] == []
    assert mode(outside) == 0o644
    assert make_private(run) == 0


@pytest.fixture
def begun(tmp_path):
    """The folder of a run that names an environment, whose import would leave a trace."""
    before = os.umask(0)
    (tmp_path / "planted.py").write_text(f"open({str(tmp_path / 'trace')!r}, 'w')")
    config = load_config(None, ["env=planted:Planted-v0", f"run.folder={tmp_path / 'runs'}"])
    folder = RunFolder(tmp_path / "runs" / "run")
    folder.create(config, lambda: folder.checkpoint.touch(0o600))
    folder.unlock()
    yield folder
    os.umask(before)


def test_new_runs_folder_is_writable_only_by_its_owner_under_any_umask(begun):
    assert mode(begun.path.parent) == 0o755
    assert mode(begun.path) == 0o700


def refused(folder, monkeypatch):
    """Check that nothing is imported for an untrusted folder, and return the reason."""
    home = folder.path.parents[1]
    monkeypatch.syspath_prepend(str(home))
    said = []
    for command in (["resume", str(folder.path)], ["serve", str(folder.path)]):
        done = subprocess.run(
            [sys.executable, "-m", "coupling.commands.cli", *command],
            env=os.environ | {"PYTHONPATH": os.pathsep.join([str(ROOT), str(home)])},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 1, done.stderr
        said.append(done.stderr.splitlines()[-1])
        assert not (home / "trace").exists()
    with pytest.raises(RunError) as refusal:
        resume(folder.path, [], Said())
    assert {line.removeprefix("flowsim: ") for line in said} == {str(refusal.value)}
    assert not (home / "trace").exists()
    return said[0]


@pytest.mark.slow
def test_folder_writable_by_others_is_refused(begun, monkeypatch):
    begun.path.chmod(0o770)
    assert "other users can write to" in refused(begun, monkeypatch)
    begun.path.chmod(0o755)
    begun.config_file.chmod(0o666)
    assert f"other users can write to {begun.config_file} (mode 0666)" in refused(
        begun, monkeypatch
    )


@pytest.mark.slow
@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a file away")
def test_folder_with_a_file_of_another_user_is_refused(begun, monkeypatch):
    os.chown(begun.config_file, 12345, -1)
    assert f"{begun.config_file} belongs to another user" in refused(begun, monkeypatch)


def test_file_modes_inside_a_private_folder_do_not_matter(begun):
    """TensorBoard's files have the mode of the umask."""
    (begun.path / "events").touch(mode=0o666)
    begun.path.joinpath("events").chmod(0o666)
    refuse_foreign(begun.path)
