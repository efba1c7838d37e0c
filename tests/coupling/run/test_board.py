"""An error of TensorBoard's writer thread is raised in the writing program, not printed by the thread."""

import subprocess
import sys

PROGRAM = """
import threading
import coupling.run.board
from tensorboard.summary.writer.event_file_writer import _AsyncWriter

class Gone:
    def write(self, data): raise FileNotFoundError("the folder is gone")
    def flush(self): pass

writer = _AsyncWriter(Gone())
try:
    while True:
        writer.write(b"1")
except FileNotFoundError as error:
    print("told:", error)

def other(): raise RuntimeError("another thread")
thread = threading.Thread(target=other)
thread.start()
thread.join()
"""


def test_failing_writer_prints_nothing_and_other_threads_still_do() -> None:
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True)
    assert done.stdout == "told: the folder is gone\n"
    assert "another thread" in done.stderr
    assert "the folder is gone" not in done.stderr
