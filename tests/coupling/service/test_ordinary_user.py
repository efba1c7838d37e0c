"""The service as an ordinary user runs it: its tests again, in a process without root's capabilities.

Some kernels refuse to an ordinary user what they permit to root, such as a filter of a socket. A process of root whose
capabilities are dropped is refused the same, and can still read an interpreter in root's home.
"""

import os
import shutil
import subprocess
import sys

import pytest
from shell import GUARD, HERE, ROOT

SERVICE = ["connection_limiter", "server", "places", "outbox", "protocol", "stale_sequences", "security", "permissions",
           "farewell", "second_client", "worker"]  # fmt: skip

pytestmark = pytest.mark.skipif(os.geteuid() != 0, reason="these tests run as an ordinary user")


def without_rights(*command):
    """Run a command without any capability."""
    setpriv = shutil.which("setpriv")
    if setpriv is None:
        pytest.skip("no setpriv to drop root's rights with (Debian: util-linux)")
    words = [setpriv, "--bounding-set=-all", "--inh-caps=-all", "--no-new-privs", *command]
    return subprocess.run(
        words, cwd=ROOT, capture_output=True, text=True, check=False, timeout=6 * GUARD
    )


def test_capabilities_of_root_are_dropped(tmp_path):
    """Otherwise the tests below would show nothing: root may read a file whatever its mode."""
    forbidden = tmp_path / "forbidden"
    forbidden.write_text("x")
    forbidden.chmod(0)
    done = without_rights(sys.executable, "-c", f"open({str(forbidden)!r})")
    if "Operation not permitted" in done.stderr:
        pytest.skip(f"the rights of root cannot be dropped here: {done.stderr.strip()}")
    assert "PermissionError" in done.stderr


@pytest.mark.slow
@pytest.mark.parametrize("name", SERVICE)
def test_the_service_works_for_an_ordinary_user(name):
    (file,) = HERE.rglob(f"test_{name}.py")
    words = ["-q", "-x", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", "not slow"]
    done = without_rights(sys.executable, "-m", "pytest", *words, str(file))
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    assert " passed" in done.stdout
