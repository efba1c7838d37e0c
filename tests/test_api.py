"""The pages of docs/api list every public name, every task, and the types in public signatures."""

import importlib
import inspect
import re
import typing
from pathlib import Path

import gymnasium
import pytest

import cases  # noqa: F401  (registers the tasks)
from rl_agent import config

API = Path(__file__).parents[1] / "docs" / "api"
PACKAGES = ["flowsim", "cases", "rl_agent", "coupling"]


def entries(package):
    """Name what a page lists: classes, functions, and modules with all their public names."""
    return re.findall(r"^::: (\S+)$", (API / f"{package}.md").read_text(encoding="utf-8"), re.M)


def resolve(name):
    module, _, member = name.rpartition(".")
    try:
        return importlib.import_module(name)
    except ModuleNotFoundError:
        return getattr(importlib.import_module(module), member)


def public(entry):
    """Collect what an entry of a page shows."""
    if not inspect.ismodule(entry):
        return [entry]
    own = [name for name, it in vars(entry).items() if inspect.getmodule(it) is entry]
    names = getattr(entry, "__all__", [name for name in own if not name.startswith("_")])
    return [getattr(entry, name) for name in names]


def shown(package):
    return [it for entry in entries(package) for it in public(resolve(entry))]


def functions(it):
    """Collect a function, or the public methods and properties of a class."""
    if inspect.isfunction(it):
        return [it]
    members = vars(it).items() if inspect.isclass(it) else ()
    methods = [getattr(member, "fget", None) or getattr(member, "__func__", member)
               for name, member in members if not name.startswith("_")]  # fmt: skip
    return [method for method in methods if inspect.isfunction(method)]


def classes(annotation):
    """Collect the classes in an annotation."""
    parts = typing.get_args(annotation)
    if not parts:
        return {annotation} if inspect.isclass(annotation) else set()
    return set().union(*map(classes, parts))


@pytest.mark.parametrize("package", ["flowsim", "rl_agent"])
def test_every_public_name_is_in_the_api_docs(package):
    names = set(entries(package))
    public_names = importlib.import_module(package).__all__
    assert not [name for name in public_names if f"{package}.{name}" not in names]


def test_every_settings_model_is_in_the_api_docs():
    there = [resolve(name) for name in entries("rl_agent")]
    shared = {name: getattr(config, name) for name in config.__all__}
    models = {name: it for name, it in shared.items() if inspect.isclass(it)}
    models |= config.algorithms()
    assert not [name for name, it in models.items() if it not in there]


def test_every_registered_task_is_in_the_api_docs():
    names = set(entries("cases"))
    ours = [spec for name, spec in gymnasium.registry.items() if name.startswith("flowsim/")]
    made_by = [str(by) for spec in ours for by in (spec.entry_point, spec.vector_entry_point) if by]
    # other tests register some, too
    made_by = [entry.split(":") for entry in made_by if entry.startswith("cases.")]
    assert made_by
    assert not [
        name for module, name in made_by if module not in names and f"{module}.{name}" not in names
    ]


@pytest.mark.parametrize("package", PACKAGES)
def test_types_in_api_signatures_are_in_the_api_docs(package):
    there, missing = set(map(id, shown(package))), set()
    for function in (function for it in shown(package) for function in functions(it)):
        try:
            hints = typing.get_type_hints(function)
        except NameError:  # of a class that is imported for the types only
            continue
        ours = [
            kind
            for hint in hints.values()
            for kind in classes(hint)
            if kind.__module__.split(".")[0] == package and not kind.__name__.startswith("_")
        ]
        missing |= {(kind.__qualname__, function.__qualname__) for kind in ours
                    if id(kind) not in there}  # fmt: skip
    assert not missing
