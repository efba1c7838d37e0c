"""Version and metadata of a release, also without tags or without git."""

import ast
import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from coupling.origin import DISTRIBUTION

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))


def git(folder, *words):
    named = [
        "-c",
        "user.name=a",
        "-c",
        "user.email=a@example.org",
        "-c",
        "commit.gpgsign=false",
        "-c",
        "tag.gpgsign=false",
    ]
    subprocess.run(["git", *named, *words], cwd=folder, check=True, capture_output=True)


def version(folder):
    pytest.importorskip("setuptools_scm")
    command = [sys.executable, "-m", "setuptools_scm"]
    done = subprocess.run(
        command, cwd=folder, check=True, capture_output=True, text=True, timeout=300
    )
    return done.stdout.strip()


def test_version_is_that_of_the_tag(tmp_path):
    (tmp_path / "pyproject.toml").write_text((ROOT / "pyproject.toml").read_text())
    assert version(tmp_path) == "0.1.0", "a copy without git"
    git(tmp_path, "init")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-m", "first")
    assert re.match(r"0\.1(\.1)?\.dev1\+g", version(tmp_path)), "a clone without tags"
    git(tmp_path, "tag", "v1.4.0")
    assert version(tmp_path) == "1.4.0"
    git(tmp_path, "commit", "--allow-empty", "-m", "second")
    assert re.match(r"1\.4\.1\.dev1\+g", version(tmp_path))


def test_citation_names_the_papers_of_all_learners():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    assert citation.keys() >= {"cff-version", "message", "title", "authors"}
    assert citation["license"] == PROJECT["project"]["license"]
    notes = " ".join(paper["notes"] for paper in citation["references"])
    for paper in citation["references"]:
        assert paper.keys() >= {"type", "title", "authors", "year"}, paper
    learners = {file.parent.name for file in (ROOT / "rl_agent" / "algorithms").glob("*/loss.py")}
    assert {"sac", "vracer"} <= learners
    for name in ("vracer", "ddpg", "naf", "acer", "tis", "a3c", "td3", "sac", "ppo", "dqn"):
        assert name in learners
        assert name in notes.lower().replace("-", ""), name
    assert "Rainbow" in notes


# "Name 2016", "Name (2016)", "Name and Other 2016", "Name, Other and Third (2016)", "Name et al. 2016"
PAPER = re.compile(
    r"([A-Z][\w-]+)(?:(?:, [A-Z][\w-]+)* (?:et al\.|(?:and|&) [A-Z][\w-]+))? \(?((?:19|20)\d\d)\b"
)


def papers_of(file):
    """Collect first author and year of what the docstring of a module refers to."""
    said = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    return {(name, int(year)) for name, year in PAPER.findall(" ".join(said.split()))}


def test_citation_has_every_paper_named_in_a_module():
    cited = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))["references"]
    there = {(paper["authors"][0]["family-names"].split()[-1], paper["year"]) for paper in cited}
    files = [file for package in ("flowsim", "rl_agent") for file in (ROOT / package).rglob("*.py")]
    papers = set().union(*map(papers_of, files))
    assert papers >= {("Ghia", 1982), ("Kingma", 2015), ("Makhoul", 1980), ("Weber", 2022)}
    # a preprint may be a year older than what is referred to
    assert not [
        (name, year) for name, year in papers if not {(name, year), (name, year - 1)} & there
    ]


def test_metadata_files_agree():
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text(encoding="utf-8"))
    codemeta = json.loads((ROOT / "codemeta.json").read_text(encoding="utf-8"))
    assert codemeta["identifier"] == PROJECT["project"]["name"] == DISTRIBUTION
    assert codemeta["name"] == citation["title"].partition(":")[0]
    newest = PROJECT["tool"]["setuptools_scm"]["fallback_version"]
    assert codemeta["version"] == citation["version"] == newest
    assert codemeta["license"].rpartition("/")[2] == citation["license"]
    assert citation["license"] == PROJECT["project"]["license"]
    ours = [author["name"] for author in PROJECT["project"]["authors"]]
    assert [author["name"] for author in codemeta["author"]] == ours
    assert [author["name"] for author in citation["authors"]] == ours
    assert codemeta["keywords"] == citation["keywords"]
    assert " ".join(codemeta["description"].split()) == " ".join(citation["abstract"].split())


def test_no_text_says_to_install_the_other_flowsim():
    """Neither `pip install flowsim` nor one of its extras occurs in docs, code or messages."""
    other = re.compile(r"pip3? install [^`\n]*\bflowsim(?![-\w/.])|\bflowsim\[[a-z]")
    assert other.search("pip install 'flowsim[rl]'")
    assert other.search("pip install -q flowsim")
    assert not other.search("pip install 'flowsim-rl[rl]'")
    names = ["git", "ls-files", "*.md", "*.py", "*.yaml", "*.toml", "*.sh", "*.sbatch", "*.html"]
    listed = subprocess.run(names, cwd=ROOT, capture_output=True, text=True, check=False)
    if listed.returncode:
        pytest.skip("there is a copy without git here")
    may = {"docs/faq.md", "docs/decisions/starting.md", "tests/test_release.py"}
    files = [
        name for name in listed.stdout.splitlines() if name not in may and (ROOT / name).exists()
    ]
    assert len(files) > 300
    assert not [name for name in files if other.search((ROOT / name).read_text(encoding="utf-8"))]


def test_the_changelog_has_every_tag():
    listed = subprocess.run(
        ["git", "tag", "--list", "v*"], cwd=ROOT, capture_output=True, text=True
    )
    changelog = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert re.search(r"^## Unreleased$", changelog, re.M)
    for tag in listed.stdout.split():
        assert re.search(rf"^## {re.escape(tag.removeprefix('v'))}\b", changelog, re.M), tag


def test_every_extra_named_in_the_readme_exists():
    extras = PROJECT["project"]["optional-dependencies"]
    for names in re.findall(
        r"flowsim-rl\[([a-z0-9,]+)\]", (ROOT / "README.md").read_text(encoding="utf-8")
    ):
        assert set(names.split(",")) <= extras.keys()
