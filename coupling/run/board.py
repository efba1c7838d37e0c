"""Curves and hyperparameters for TensorBoard, with its own writer: that of torch would import torch in every run."""

import threading
import time
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

from google.protobuf.message import Message
from tensorboard.compat.proto.event_pb2 import Event, SessionLog
from tensorboard.compat.proto.summary_pb2 import Summary, SummaryMetadata
from tensorboard.plugins.hparams import metadata
from tensorboard.plugins.hparams.api_pb2 import (
    Experiment,
    HParamInfo,
    MetricInfo,
    MetricName,
    Status,
)
from tensorboard.plugins.hparams.plugin_data_pb2 import (
    HParamsPluginData,
    SessionEndInfo,
    SessionStartInfo,
)
from tensorboard.summary.writer.event_file_writer import EventFileWriter

__all__ = ["Board"]

_hook = threading.excepthook


def _on_failed_thread(failure: threading.ExceptHookArgs) -> None:
    """Print the exception that ended a thread, except TensorBoard's writer: the next :meth:`Board.add` raises it."""
    if type(failure.thread).__module__ != EventFileWriter.__module__:
        _hook(failure)


threading.excepthook = _on_failed_thread


class Board:
    """Writer of the numbers that TensorBoard shows as curves.

    Parameters
    ----------
    folder
        Folder of its files.
    purge_step
        Step from which a resumed run writes again; TensorBoard then discards what it had read beyond it.
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

    def begin(self, settings: Mapping[str, Any], metrics: Iterable[str]) -> None:
        """Write for the page HPARAMS the settings of the run, and the curves whose last points are its results."""
        start = SessionStartInfo(start_time_secs=time.time())
        for name, value in settings.items():
            if isinstance(value, bool):
                start.hparams[name].bool_value = value
            elif isinstance(value, int | float):
                start.hparams[name].number_value = value
            else:
                start.hparams[name].string_value = str(value)
        experiment = Experiment(
            hparam_infos=[HParamInfo(name=name) for name in settings],
            metric_infos=[MetricInfo(name=MetricName(tag=tag)) for tag in metrics],
        )
        self._tell(metadata.EXPERIMENT_TAG, experiment=experiment)
        self._tell(metadata.SESSION_START_INFO_TAG, session_start_info=start)

    def end(self, *, finished: bool) -> None:
        """Write for the page HPARAMS that the run is over, and whether it finished."""
        status = Status.STATUS_SUCCESS if finished else Status.STATUS_FAILURE
        info = SessionEndInfo(status=status, end_time_secs=time.time())
        self._tell(metadata.SESSION_END_INFO_TAG, session_end_info=info)

    def _tell(self, tag: str, **content: Message) -> None:
        data = HParamsPluginData(version=metadata.PLUGIN_DATA_VERSION, **content)
        plugin = SummaryMetadata.PluginData(
            plugin_name=metadata.PLUGIN_NAME, content=data.SerializeToString()
        )
        value = Summary.Value(tag=tag, metadata=SummaryMetadata(plugin_data=plugin))
        self._writer.add_event(Event(wall_time=time.time(), summary=Summary(value=[value])))

    def close(self) -> None:
        """Write the buffered data and close the files."""
        self._writer.close()
