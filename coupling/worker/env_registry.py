"""Resolution of task names: registered environments, the user's modules, multi-agent environments."""

import contextlib
import sys
from collections.abc import Callable
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import load_env_creator

from coupling.errors import ConfigError, ignoring_raised
from coupling.modules import import_module
from coupling.worker.cycle_limit import with_cycle_limit

__all__ = [
    "PARALLEL",
    "draws_itself",
    "is_flow",
    "load_task",
    "module_of",
    "parallel_env_maker",
    "registered",
    "unregistered",
]

PARALLEL = "parallel:"
"""Prefix of the names of tasks with multi-agent environments."""


def registered(env: str) -> gym.envs.registration.EnvSpec:
    """Return the registered task, after importing the module of ``module:id``, which may be in the current folder."""
    module, _, name = env.rpartition(":")
    if module:
        import_module(module, f"env = {env!r}")
    try:
        spec = gym.spec(name)
    except gym.error.Error as error:
        if type(error) is gym.error.Error:  # an ID without its version
            raise gym.error.NameNotFound(name) from error
        raise
    if str(spec.entry_point).startswith("gymnasium.envs.mujoco"):
        _print_mujoco_warnings()
    return spec


def is_flow(env: str) -> bool:
    """Return whether a task is a flow task, stepped as one batch; errors are reported when the task is created."""
    from cases.flow_env import FlowVectorEnv  # also registers the flow tasks

    if env.startswith(PARALLEL):
        return False
    try:
        entry = registered(env).vector_entry_point
    except gym.error.Error:
        return False
    make = load_env_creator(entry) if isinstance(entry, str) else entry
    return isinstance(make, type) and issubclass(make, FlowVectorEnv)


def _print_mujoco_warnings() -> None:
    """Print MuJoCo's warnings, except those on deprecated features in the models of Gymnasium.

    They would be repeated for each copy of an environment, and users cannot change these models. With this
    handler, MuJoCo also writes no MUJOCO_LOG.TXT into the current folder.
    """
    with contextlib.suppress(ImportError):  # without MuJoCo, gymnasium.make reports what is missing
        import mujoco

        mujoco.set_mju_user_warning(
            lambda text: None if "deprecated" in text else print(f"MuJoCo: {text}", file=sys.stderr)
        )


def unregistered(env: str) -> str:
    """Return the remedy if the ``Name`` of ``module:Name`` exists but is not registered; else an empty string."""
    module, _, name = env.rpartition(":")
    if not callable(getattr(sys.modules.get(module), name, None)):
        return ""
    return (
        f"{module} defines {name} without registering an id: call gymnasium.register('{name}-v0', '{module}:{name}') "
        f"in {module}, and give env={module}:{name}-v0"
    )


def parallel_env_maker(env: str) -> Callable[..., Any]:
    """Return the function that creates the multi-agent environments of ``parallel:module``."""
    name = env.removeprefix(PARALLEL)
    try:
        make = getattr(import_module(name, f"env = {env!r}"), "parallel_env", None)
    except ConfigError as error:
        if name.startswith("pettingzoo."):
            raise ConfigError(
                f"{error}; pip install 'flowsim-rl[sisl]' (Python 3.12 at most)"
            ) from error
        raise
    if not callable(make):
        raise ConfigError(f"env = {env!r}: module {name!r} has no function parallel_env")
    return with_cycle_limit(make)


def module_of(env: str) -> str:
    """Return the module in the name of a task; empty if the name is only an ID."""
    return env.removeprefix(PARALLEL) if env.startswith(PARALLEL) else env.rpartition(":")[0]


def load_task(env: str) -> None:
    """Import the code of a task without creating it; import errors are reported when it is created."""
    import cases  # noqa: F401  (registers the flow tasks)

    with ignoring_raised():
        if env.startswith(PARALLEL):
            parallel_env_maker(env)
            return
        spec = registered(env)
        for entry in (spec.vector_entry_point, spec.entry_point):
            if isinstance(entry, str):
                load_env_creator(entry)


def draws_itself(env: str) -> bool:
    """Return whether the class of a task declares that it can be rendered, without creating the task.

    Return False if a function creates the task or it cannot be imported.
    """
    import cases  # noqa: F401  (registers the flow tasks)

    with ignoring_raised():  # the user's module may raise anything, or be missing
        if env.startswith(PARALLEL):
            made_by: Any = parallel_env_maker(env)
        else:
            entry = registered(env).entry_point
            made_by = load_env_creator(entry) if isinstance(entry, str) else entry
        modes = made_by.metadata["render_modes"]
        return "rgb_array" in modes or "rgb_array_list" in modes
    return False
