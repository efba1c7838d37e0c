"""The user cache: one rule for compiled code and wakes, private folders, and rebuilding of damaged files."""

import os
import shutil
import stat
import subprocess
import sys
from pathlib import Path

import pytest

import flowsim.backend.user_cache
import rl_agent.runtime.user_cache
from rl_agent.runtime.user_cache import COMPILED, KEPT, cache_folder, cached

ROOT = Path(__file__).parents[3]
DOUBLED = """
import os, sys
from pathlib import Path
from numba.extending import intrinsic
from rl_agent.runtime.user_cache import cached

@intrinsic
def note(typing_context, x):
    print("compiled")
    return x(x), lambda context, builder, signature, arguments: arguments[0]

def doubled(x):
    return 2.0 * note(x)

print(cached(doubled, Path(sys.argv[1]))(21.0))
"""
ASKING = """
from rl_agent.runtime.user_cache import COMPILED, KEPT, cache_folder, settle
settle()
print(cache_folder("wakes", KEPT))
print(cache_folder("compiled/0123", COMPILED))
"""


def mode(path):
    return stat.S_IMODE(path.stat().st_mode)


def asked(folder, **variables):
    """Return the folders of both caches and the messages, from a fresh process."""
    environment = {"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT), "TMPDIR": str(folder)}
    done = subprocess.run(
        [sys.executable, "-c", ASKING],
        env=environment | variables,
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    wakes, compiled = map(Path, done.stdout.splitlines())
    return wakes, compiled, done.stderr


@pytest.fixture
def base(tmp_path, monkeypatch):
    monkeypatch.delenv("NUMBA_CACHE_DIR", raising=False)
    monkeypatch.setenv("FLOWSIM_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def test_both_packages_have_the_same_user_cache_module():
    assert (
        Path(flowsim.backend.user_cache.__file__).read_text()
        == Path(rl_agent.runtime.user_cache.__file__).read_text()
    )


def test_default_folders_are_used_without_a_message(tmp_path):
    home = tmp_path / "home"
    home.mkdir()
    wakes, compiled, said = asked(tmp_path, HOME=str(home))
    assert wakes == home / ".cache" / "flowsim" / "wakes"
    assert compiled == home / ".cache" / "flowsim" / "compiled" / "0123"
    assert said == ""
    # a relative one is of the folder in which the process began
    wakes, compiled, said = asked(tmp_path, HOME=str(home), FLOWSIM_CACHE="here")
    assert (wakes, said) == (tmp_path / "here" / "wakes", "")
    assert compiled == tmp_path / "here" / "compiled" / "0123"


@pytest.mark.parametrize(
    "variables",
    [
        {"HOME": "/proc"},
        {"HOME": "/proc", "FLOWSIM_CACHE": "/proc/x"},
        {"HOME": "/proc", "FLOWSIM_CACHE": "/dev/null"},
        {"HOME": "/proc", "NUMBA_CACHE_DIR": "/proc/x", "FLOWSIM_CACHE": "/proc/y"},
    ],
)
def test_unwritable_folders_fall_back_to_a_temporary_one_with_one_message(tmp_path, variables):
    wakes, compiled, said = asked(tmp_path, **variables)
    for folder in (wakes, compiled):
        assert folder.is_relative_to(tmp_path)
        assert not folder.exists()  # it was removed with the process
    assert not list(tmp_path.iterdir())
    # once for each variable that names an unusable folder
    assert len(said.splitlines()) == max(1, len(variables) - 1)
    assert all("FLOWSIM_CACHE" in line for line in said.splitlines())


def test_error_without_a_temporary_folder_names_the_variable(tmp_path):
    code = "import tempfile; tempfile.tempdir = '/proc/nowhere'\n" + ASKING
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={"PYTHONPATH": str(ROOT), "HOME": "/proc"},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "FLOWSIM_CACHE=FOLDER names another place" in done.stderr.splitlines()[-1]


@pytest.mark.parametrize("umask", [0, 0o077])
def test_folders_are_private_whatever_the_umask(base, umask):
    before = os.umask(umask)
    try:
        for folder in (cache_folder("wakes", KEPT), cache_folder("compiled/0123", COMPILED)):
            assert mode(folder) == 0o700
    finally:
        os.umask(before)
    assert mode(base) == mode(base / "compiled") == 0o700


@pytest.mark.parametrize("lax", ["compiled", "compiled/0123"])
def test_folders_writable_by_others_are_not_used(base, lax):
    planted = cache_folder("compiled/0123", COMPILED) / "code.nbi"
    planted.write_bytes(b"planted")
    assert cache_folder("compiled/0123", COMPILED) == planted.parent
    assert planted.exists()
    (base / lax).chmod(0o777)
    assert cache_folder("compiled/0123", COMPILED) == planted.parent
    assert not planted.exists()
    assert mode(base / lax) == 0o700


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_folder_of_another_user_is_not_used(base, capsys):
    theirs = cache_folder("compiled/0123", COMPILED)
    os.chown(theirs, 12345, -1)
    instead = cache_folder("compiled/0123", COMPILED)
    assert not instead.is_relative_to(base)
    assert "it belongs to somebody else" in capsys.readouterr().err
    shutil.rmtree(instead.parents[1])


def test_symlinked_folder_is_not_followed(base, tmp_path, capsys):
    (tmp_path / "elsewhere").mkdir()
    base.mkdir()
    (base / "wakes").symlink_to(tmp_path / "elsewhere")
    instead = cache_folder("wakes", KEPT)
    assert not instead.is_relative_to(tmp_path / "cache")
    assert "it is no folder" in capsys.readouterr().err
    shutil.rmtree(instead.parent)


def test_damaged_compiled_function_is_compiled_again(tmp_path):
    script, folder = tmp_path / "doubled.py", tmp_path / "kept"
    script.write_text(DOUBLED)

    def run():
        done = subprocess.run(
            [sys.executable, str(script), str(folder)],
            env=os.environ | {"PYTHONPATH": str(ROOT)},
            capture_output=True,
            text=True,
            timeout=300,
            check=False,
        )
        assert done.returncode == 0, done.stderr
        assert done.stdout.splitlines()[-1] == "42.0"
        return "compiled" in done.stdout

    assert run()
    assert not run()
    index, code = (next(folder.rglob(f"*.{ending}")) for ending in ("nbi", "nbc"))
    for file in (index, code):
        content = file.read_bytes()
        flipped = bytearray(content)
        flipped[len(content) // 2] ^= 4
        for damaged in (b"", content[:3], content[:100], bytes(flipped)):
            file.write_bytes(damaged)
            assert run(), (file.suffix, len(damaged))
            assert not run()


def test_full_disk_loses_the_cache_but_not_the_call(tmp_path, monkeypatch):
    def halved(x):
        return 0.5 * x

    function, tried = cached(halved, tmp_path), []

    def full(*arguments):
        tried.append(arguments)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.replace", full)
    assert function(42.0) == 21.0
    assert tried
