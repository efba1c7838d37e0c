"""Tables that scripts put into pages are those of the results that are kept."""

import importlib
import json
from pathlib import Path

ROOT = Path(__file__).parents[2]
RESULTS = ROOT / "benchmarks" / "results"


def _page(name):
    return (ROOT / "docs" / name).read_text()


def test_policies_in_other_flows():
    module = importlib.import_module("benchmarks.physics.resolution")
    assert module.table_of_policies(RESULTS / "resolution_policies.parquet") in _page(
        "studies/resolution.md"
    )


def test_linear_feedback():
    module = importlib.import_module("benchmarks.learning.linear_feedback")
    found = json.loads((RESULTS / "linear_feedback" / "evaluation.json").read_text())
    assert module.table(found) in _page("studies/learned.md")


def test_what_was_learned():
    module = importlib.import_module("benchmarks.learning.learned")
    assert module.table(module.read(RESULTS / "learned.parquet")) in _page("studies/learned.md")


def test_cards_of_agents():
    module = importlib.import_module("benchmarks.learning.agents")
    assert module.cards() in _page("agents.md")


def test_trials_of_the_defaults():
    module = importlib.import_module("benchmarks.learning.defaults")
    plan = importlib.import_module("benchmarks.learning.suites.plan")
    suites = plan.read_plan(ROOT / "benchmarks" / "learning" / "defaults.yaml")
    assert module.table(suites, RESULTS / "defaults.parquet") in _page("defaults.md")


def test_small_tasks():
    module = importlib.import_module("benchmarks.learning.small")
    assert module.table(RESULTS / "small.parquet") in _page("defaults.md")


def test_seeds_of_the_demo():
    module = importlib.import_module("benchmarks.learning.demo_seeds")
    assert module.table() in _page("results.md")
