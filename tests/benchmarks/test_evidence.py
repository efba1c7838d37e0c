"""Evidence is of one clean commit and can be resumed, and pages name only results that exist."""

import importlib
import json
import re
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

ROOT = Path(__file__).parents[2]
SUFFIXES = (".py", ".yaml", ".json", ".md", ".c", ".h", ".f90")
MADE_BY_THE_READER = {
    "benchmarks/results/gpu/",
    "benchmarks/results/gpu/NAME",
    "flowsim/runs/wake/connection.json",
}
PAGES = [
    ROOT / "README.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    ROOT / "coupling" / "wire" / "PROTOCOL.md",
]


@pytest.fixture
def evidence():
    return importlib.import_module("benchmarks.evidence")


@pytest.fixture
def repository(tmp_path):
    """A checkout with one commit, which ignores intermediate files."""
    folder = tmp_path / "repository"
    (folder / "benchmarks" / "results").mkdir(parents=True)
    (folder / "docs").mkdir()
    (folder / ".gitignore").write_text("runs/\n")
    (folder / "code.py").write_text("print(1)\n")
    git(folder, "init", "-q")
    commit(folder)
    return folder


def git(folder: Path, *words: str) -> str:
    names = ["-c", "user.name=a", "-c", "user.email=a@b"]
    return subprocess.run(
        ["git", *names, *words], cwd=folder, check=True, capture_output=True, text=True
    ).stdout


def commit(folder: Path) -> str:
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "A step")
    return git(folder, "rev-parse", "HEAD").strip()


def part(evidence, name: str, code: str = "print('a result')"):
    file = f"{name}.txt"
    keeps = (("{out}/" + file, f"benchmarks/results/{file}"),)
    return evidence.Part(name, (sys.executable, "-c", code), keeps, "a page", "{out}/" + file)


def gather(evidence, repository, parts):
    said: list[str] = []
    failed = evidence.gather(parts, repository, repository / "runs", said.append, {})
    return failed, [line.split()[1] for line in said if "all that is left" in line]


def test_a_changed_tree_is_refused(evidence, repository):
    (repository / "code.py").write_text("print(2)\n")
    with pytest.raises(evidence.EvidenceError, match=r"changed: M code\.py"):
        gather(evidence, repository, [part(evidence, "one")])


def test_finished_parts_are_kept_and_failures_are_retried(evidence, repository):
    parts = [
        part(evidence, "one"),
        part(evidence, "two", "import sys; sys.exit(1)"),
        part(evidence, "three"),
    ]
    assert gather(evidence, repository, parts) == (["two"], ["one", "two", "three"])
    assert gather(evidence, repository, parts) == (["two"], ["two"])


def test_a_part_that_changes_the_tree_does_not_count(evidence, repository):
    with pytest.raises(evidence.EvidenceError, match=r"code\.py"):
        gather(evidence, repository, [part(evidence, "one", "open('code.py', 'w').write('2')")])
    git(repository, "checkout", "code.py")
    assert gather(evidence, repository, [part(evidence, "one")])[1] == ["one"]


def test_results_name_their_commit_and_are_repeated_only_for_other_code(evidence, repository):
    parts = [part(evidence, "one"), part(evidence, "two")]
    first = git(repository, "rev-parse", "HEAD").strip()
    gather(evidence, repository, parts)
    evidence.publish(repository, repository / "runs", ())
    assert (repository / "benchmarks/results/one.txt").read_text() == "a result\n"
    record = json.loads((repository / evidence.RECORD).read_text())
    assert {item["commit"] for item in record.values()} == {first}
    assert f"`{first[:12]}`" in (repository / evidence.PAGE).read_text()
    commit(repository)
    assert gather(evidence, repository, parts)[1] == [], "only results were added since"
    (repository / "code.py").write_text("print(2)\n")
    second = commit(repository)
    assert gather(evidence, repository, parts[:1])[1] == ["one"]
    evidence.publish(repository, repository / "runs", ())
    text = (repository / evidence.PAGE).read_text()
    assert f"`{first[:12]}`" in text, "of the part that was not repeated"
    assert f"`{second[:12]}`" in text


def test_page_matches_the_results(evidence):
    assert (ROOT / evidence.PAGE).read_text() == evidence.page(ROOT), (
        "python benchmarks/evidence.py --page"
    )


def test_recorded_result_files_exist(evidence):
    record = json.loads((ROOT / evidence.RECORD).read_text())
    missing = [
        target
        for item in record.values()
        for target in item["files"]
        if not (ROOT / target).exists()
    ]
    assert not missing


def result(name: str) -> Any:
    return json.loads((ROOT / "benchmarks" / "results" / name).read_text())


def chaos_sentences() -> dict[str, list[str]]:
    """The sentences that the pages must contain about the last campaign: its events, and what became of the steps."""
    report = result("coupling/chaos.json")
    done, audit = Counter(report["done"]), Counter(report["audit"])
    kills = sum(done[f"kills of {victim}"] for victim in ("workers", "the learner", "everything"))
    messages = sum(done[what] for what in ("messages dropped", "duplicated", "held back"))
    returned, held = audit["returned"], audit["held"]
    gone = returned - held
    assert gone == audit["in_window"] + audit["without_outbox"], "the pages give two reasons"
    assert report["passed"]
    assert not any(audit[what] for what in ("lost", "doubled", "wrong"))
    told = [
        f"{kills} kills, {done['cuts']} cut connections and some {round(messages, -1):,} dropped, "
        f"doubled or delayed messages disturbed the recording of {returned:,} steps",
        f"{gone} died with their processes: {audit['in_window']} ",
        f"{audit['without_outbox']} in workers without one",
    ]
    short = (
        f"in {kills} kills and {done['cuts']} cut connections, {held:,} of {returned:,} steps were recorded, "
        f"each exactly once; {gone} died unstored with their process"
    )
    pages = ("docs/service.md",)
    return dict.fromkeys(pages, told) | {page: [short] for page in ("README.md", "docs/results.md")}


def fuzz_sentences() -> dict[str, list[str]]:
    """The sentences that the page must contain about the last run of hostile frames."""
    report = result("coupling/fuzz.json")
    servers = report["server"], report["server_of_several_agents"]
    assert not any(server["rows_of_no_valid_frame"] for server in servers)
    frames = sum(server["frames"] for server in servers)
    violations, strangers = (
        sum(server["counts"][name] for server in servers) for name in ("violations", "strangers")
    )
    told = [
        f"{round(report['decoder']['frames'] + frames, -4):,} times",
        f"{frames:,} of them went to real servers",
        f"{violations:,} frames were counted as violations and {strangers:,} as of no known session",
        f"all of the {sum(server['honest_lives'] for server in servers):,} honest workers",
    ]
    return {"docs/security.md": told}


def test_table_of_floods_matches_the_results():
    before, now = (result(f"coupling/{name}.json") for name in ("flood_before", "flood"))
    page = (ROOT / "docs" / "security.md").read_text()
    kinds = {
        "noise": "random bytes",
        "silence": "nothing",
        "greeting": "greeting, then random bytes",
        "frames": "whole handshakes, random messages",
        "elsewhere": "random bytes to another process",
    }
    for kind, words in kinds.items():
        cells = [words]
        for show in (
            lambda row, _: f"{row['ratio']:.2f}",
            lambda row, _: f"{100 * row['cpu_zeromq']:.1f} %",
            lambda row, seconds: (
                f"{(row['refused'] + row['violations'] + row['unheard']) / seconds:.0f}"
            ),
            lambda row, _: f"{row['longest_pause_of_a_worker_s']:.2f}",
        ):
            cells += [show(report["summary"][kind], report["seconds"]) for report in (before, now)]
        assert f"| {' | '.join(cells)} |" in page
    longest = [
        max(row["longest_pause_of_a_worker_s"] for row in report["rows"])
        for report in (before, now)
    ]
    assert "longest of all was {:.2f} s before and {:.2f} s now".format(*longest) in page


@pytest.mark.parametrize(
    ("part", "sentences"), [("chaos", chaos_sentences), ("fuzz_protocol", fuzz_sentences)]
)
def test_numbers_copied_by_hand_match_the_results(evidence, part, sentences):
    (shown,) = [each.shown for each in evidence.PARTS if each.name == part]
    for page, expected in sentences().items():
        assert page in shown.split("; ")
        text = " ".join((ROOT / page).read_text().split())
        assert [sentence for sentence in expected if sentence not in text] == [], page


def test_page_says_where_each_part_is_shown(evidence):
    page = (ROOT / evidence.PAGE).read_text()
    assert [part.name for part in evidence.PARTS if f"| {part.shown} |" not in page] == []


@pytest.mark.parametrize("path", PAGES, ids=lambda path: path.name)
def test_pages_name_only_files_that_exist(path):
    text = path.read_text()
    linked = {
        target for target in re.findall(r"\]\(([^)#\s]+)[^)]*\)", text) if "://" not in target
    }
    missing = [target for target in linked if not (path.parent / target).exists()]
    named = re.findall(
        r"(?<![\w/.-])((?:benchmarks|docs|coupling|cases|rl_agent|flowsim|tests)/[\w./-]+)", text
    )
    files = {
        name.rstrip(".")
        for name in named
        if name.startswith(("benchmarks/", "docs/")) or name.endswith(SUFFIXES)
    }
    missing += [
        name for name in files if not (ROOT / name).exists() and name not in MADE_BY_THE_READER
    ]
    assert not missing, f"{path.name} names {missing}"
