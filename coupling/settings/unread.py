"""Settings of a run and of its workers that are not read, given other ones.

Those of agents are in ``rl_agent/config/unread.py``.
"""

from collections.abc import Iterator

from pydantic import BaseModel

from coupling.settings.config import RunConfig

__all__ = ["unread_settings"]

_OF_STARTED_WORKERS = ("threads", "outbox")
"""Settings of workers that a launcher starts; those started by hand do not have them."""


def unread_settings(config: RunConfig) -> Iterator[str]:
    """Yield a message for each setting in ``run`` and ``workers`` that differs from its default and is not read.

    A run folder has a value for every setting, so defaults are not reported.
    """
    workers, run = config.workers, config.run
    launcher = f"workers.launcher = {workers.launcher} does not read"
    for name, resources in (("ray", workers.ray), ("slurm", workers.slurm)):
        for setting in _changed(resources, f"workers.{name}") if workers.launcher != name else ():
            yield f"{setting} is a setting of workers.launcher = {name}, which {launcher}"
    if workers.launcher == "none":
        for setting in _changed(workers, "workers", _OF_STARTED_WORKERS):
            yield f"{setting} is a setting of workers that flowsim starts, which {launcher}"
    if workers.transport == "ipc":
        for setting in _changed(workers, "workers", ("bind",)):
            yield f"{setting} is a setting of workers.transport = tcp, which workers.transport = ipc does not read"
    # only the environments of flowsim are known not to need a GPU
    if config.env.startswith("flowsim/") and config.env_options.get("backend", "cpu") == "cpu":
        for setting in _changed(workers, "workers", ("devices",)):
            yield f"{setting} assigns GPUs, which env_options.backend = cpu does without"
    if run.select_max_actions and not run.select_episodes:
        yield (
            f"run.select_max_actions = {run.select_max_actions} limits episodes that choose the final policy, which "
            "run.select_episodes = 0 does without"
        )
    selects = run.select_episodes and not run.select_max_actions
    if run.evaluate_max_actions and not (run.evaluate_episodes or selects):
        yield (
            f"run.evaluate_max_actions = {run.evaluate_max_actions} limits episodes of an evaluation, which "
            "run.evaluate_episodes = 0 does without"
        )


def _changed(settings: BaseModel, section: str, keys: tuple[str, ...] = ()) -> Iterator[str]:
    """Yield ``section.key = value`` for the settings, all or ``keys``, that differ from their defaults."""
    for key in keys or tuple(type(settings).model_fields):
        value = getattr(settings, key)
        if value != type(settings).model_fields[key].get_default(call_default_factory=True):
            yield f"{section}.{key} = {value}"
