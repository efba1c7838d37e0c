"""Tables that scripts put into pages match the kept results."""

import importlib
import json
from pathlib import Path

import pytest

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
    assert module.whole_demo() in _page("results.md")


def test_claims_of_the_readme():
    module = importlib.import_module("benchmarks.claims")
    assert module.table() in (ROOT / "README.md").read_text()
    assert module.table().replace("](docs/", "](") in _page("results.md")


@pytest.mark.filterwarnings("ignore::rl_agent.config.old_names.OldNameWarning")
def test_trainings_on_the_wake():
    module = importlib.import_module("benchmarks.learning.figure6")
    plan = module.read_plan(ROOT / "benchmarks" / "learning" / "figure6.yaml")
    results = RESULTS / "figure6.parquet"
    assert module.overview(plan, results) in _page("results.md")
    assert module.against(plan, results, "V-RACER", "SAC") in _page("results.md")
    compared = module.methods_of(module.COMPARED, plan[module.COMPARED], results)
    assert module.claims(compared) in _page("studies/figure6.md")


def test_starts_of_the_wake():
    module = importlib.import_module("benchmarks.learning.starts")
    found = json.loads(module.RESULT.read_text())["ranges"]
    assert module.table(found) in _page("results.md")


@pytest.mark.filterwarnings("ignore::rl_agent.config.old_names.OldNameWarning")
def test_claims_of_the_papers():
    module = importlib.import_module("benchmarks.learning.papers")
    for paper, claims in module.read_claims().items():
        plans = {
            claim.study: module.read_plan(module.CLAIMS.with_name(f"{claim.study}.yaml"))
            for claim in claims
        }
        assert module.findings(claims, plans, RESULTS) in _page(f"papers/{paper}.md")


def test_nine_tasks_beside_published_returns():
    module = importlib.import_module("benchmarks.learning.nine_tasks")
    published = module.read_published()
    assert module.table(published, RESULTS) in _page("papers/refer.md")
    assert published.url in _page("papers/refer.md")


def test_memory_of_a_policy():
    module = importlib.import_module("benchmarks.learning.memory")
    plan = importlib.import_module("benchmarks.learning.suites.plan")
    suites = plan.read_plan(ROOT / "benchmarks" / "learning" / "memory.yaml")
    assert module.table(suites, RESULTS / "memory.parquet") in _page("studies/memory.md")
    assert module.table_of_seeds(suites, RESULTS / "memory.parquet") in _page("studies/memory.md")


@pytest.mark.filterwarnings("ignore::rl_agent.config.old_names.OldNameWarning")
def test_samplers():
    module = importlib.import_module("benchmarks.learning.replay")
    plan = module.read_plan(ROOT / "benchmarks" / "learning" / "replay.yaml")
    assert module.findings(plan, RESULTS / "replay.parquet") in _page("samplers.md")


@pytest.mark.parametrize(
    "script",
    [
        "learning.backward_step",
        "learning.drag_tasks",
        "learning.finer_flows",
        "learning.open_cavity",
        "learning.pitching_foil",
        "learning.rayleigh_benard",
        "learning.square_drag",
        "physics.uncontrolled",
        "suite",
    ],
)
def test_pages_of_tasks_are_what_their_script_writes(script, monkeypatch):
    """All but the pictures, for which flows would have to be simulated."""
    module, written = importlib.import_module(f"benchmarks.{script}"), []

    def compare(page, content):
        assert content.decode() == page.read_text()
        written.append(page)

    monkeypatch.setattr("benchmarks.pages.write_atomically", compare)
    for pictures in ("picture", "save_plot"):
        monkeypatch.setattr(module, pictures, lambda *_: None, raising=False)
    monkeypatch.setattr("sys.argv", [script, "page"])
    module.main()
    assert written


def test_sensors_of_the_square():
    module = importlib.import_module("benchmarks.learning.square_sensors")
    rows = json.loads(module.RESULTS.read_text())["rows"]
    assert module.table(rows) in _page("square_jets.md")
