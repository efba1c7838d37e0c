"""What the name of a task means: a registered environment, a module of somebody's own, a multi-agent environment."""

import contextlib
import sys
from collections.abc import Callable
from typing import Any

import gymnasium as gym
from gymnasium.envs.registration import load_env_creator

from coupling.errors import RAISED, ConfigError
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
"""How the name of a task begins whose environments have several agents."""


def registered(env: str) -> gym.envs.registration.EnvSpec:
    """Return the registered task, after importing the module of ``module:id``, also one in the current folder."""
    module, _, name = env.rpartition(":")
    if module:
        import_module(module, f"env = {env!r}")
    try:
        spec = gym.spec(name)
    except gym.error.Error as error:
        if type(error) is gym.error.Error:  # an id without its version
            raise gym.error.NameNotFound(name) from error
        raise
    if str(spec.entry_point).startswith("gymnasium.envs.mujoco"):
        _tell_what_mujoco_warns_of()
    return spec


def is_flow(env: str) -> bool:
    """Return whether a task is one of flows, stepped as one batch; what cannot be made is told where it is made."""
    from cases.flow_env import FlowVectorEnv  # registers the flow tasks, too

    if env.startswith(PARALLEL):
        return False
    try:
        entry = registered(env).vector_entry_point
    except gym.error.Error:
        return False
    make = load_env_creator(entry) if isinstance(entry, str) else entry
    return isinstance(make, type) and issubclass(make, FlowVectorEnv)


def _tell_what_mujoco_warns_of() -> None:
    """Print MuJoCo's warnings, but for what it no longer likes in the models that Gymnasium brings.

    It would say so for each copy of an environment, nobody who trains can change it, and with a function of ours it
    leaves no MUJOCO_LOG.TXT in the current folder.
    """
    with contextlib.suppress(ImportError):  # without it, gymnasium.make says what is missing
        import mujoco

        mujoco.set_mju_user_warning(
            lambda text: None if "deprecated" in text else print(f"MuJoCo: {text}", file=sys.stderr)
        )


def unregistered(env: str) -> str:
    """Return what to do about ``module:Name`` where ``Name`` is there but nobody registered it; empty otherwise."""
    module, _, name = env.rpartition(":")
    if not callable(getattr(sys.modules.get(module), name, None)):
        return ""
    return (
        f"{module} has {name}, but under no id: let {module} call "
        f"gymnasium.register('{name}-v0', '{module}:{name}'), and give env={module}:{name}-v0"
    )


def parallel_env_maker(env: str) -> Callable[..., Any]:
    """Return what makes the multi-agent environments of ``parallel:module``."""
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
    """Return the module that a task's name says to import; empty if it is an id alone."""
    return env.removeprefix(PARALLEL) if env.startswith(PARALLEL) else env.rpartition(":")[0]


def load_task(env: str) -> None:
    """Import what a task is made of, without making it; what cannot be imported is told when it is made."""
    import cases  # noqa: F401  (registers the flow tasks)

    with contextlib.suppress(*RAISED):
        if env.startswith(PARALLEL):
            parallel_env_maker(env)
            return
        spec = registered(env)
        for entry in (spec.vector_entry_point, spec.entry_point):
            if isinstance(entry, str):
                load_env_creator(entry)


def draws_itself(env: str) -> bool:
    """Tell whether the class of a task says that it draws itself; nothing is made to find out.

    What a function makes counts as one that does not, and so does what cannot be imported.
    """
    import cases  # noqa: F401  (registers the flow tasks)

    with contextlib.suppress(*RAISED):  # somebody's own module may raise anything, or be gone
        if env.startswith(PARALLEL):
            made_by: Any = parallel_env_maker(env)
        else:
            entry = registered(env).entry_point
            made_by = load_env_creator(entry) if isinstance(entry, str) else entry
        modes = made_by.metadata["render_modes"]
        return "rgb_array" in modes or "rgb_array_list" in modes
    return False
