"""Curves for TensorBoard, by its own writer: that of torch, which is around it, would bring torch into every run."""

import time
from pathlib import Path

from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary
from tensorboard.summary.writer.event_file_writer import EventFileWriter

__all__ = ["Board"]


class Board:
    """Writes numbers that TensorBoard shows as curves.

    Parameters
    ----------
    folder
        Where its files are.
    purge_step
        Step from which on a resumed run writes anew; TensorBoard then forgets what it had read beyond it.
    """

    def __init__(self, folder: Path, purge_step: int | None) -> None:
        self._writer = EventFileWriter(str(folder), flush_secs=15)
        if purge_step is not None:
            begun = SessionLog(status=SessionLog.START)
            self._writer.add_event(Event(wall_time=time.time(), step=purge_step, session_log=begun))

    def add(self, name: str, value: float, step: int) -> None:
        """Add a point to a curve."""
        summary = Summary(value=[Summary.Value(tag=name, simple_value=value)])
        self._writer.add_event(Event(wall_time=time.time(), step=step, summary=summary))

    def close(self) -> None:
        """Write out what is still held."""
        self._writer.close()
