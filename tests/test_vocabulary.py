"""Words that this project no longer uses stay out of its code, pages and messages; docs/glossary.md has the field's."""

import re
import subprocess
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
RETIRED = {
    "yield_to_others": "resolve_overlap",
    "misfits": "incompatibilities",
    "doubts": "warnings",
    "whereabouts": "locate_body, or body geometry",
    "believed": "lambda_mix",
    "nearness": "near-policy mask",
    "Abreast": "Parallel",
    "rehearse": "warm up",
    "rehearsal": "warm-up",
    "anew": "again",
    "lest": "so that ... not",
    "for ever": "forever",
    "by turns": "in turn",
    "in the place of": "instead of",
    "whom": "which agent, which worker, ...",
    "athwart": "across",
    "agent is lost": "agent leaves the box, or fails",
    "is lost after": "leaves the box after",
    "an action pays": "an action costs",
    "these starts": "these episodes, or these initial conditions",
    "steps_per_update": "env_steps_per_gradient_step",
    "target_every": "target_update_interval",
    "steps_ahead": "n_step",
    "judge": "evaluate, or classify",
    "judged": "evaluated",
    "judges": "evaluates",
    "judging": "evaluating",
    "judgement": "evaluation",
    "judged_episodes": "performance_window",
    "contestant": "method",
    "contestants": "methods",
    "OnStretches": "SegmentAlgorithm",
    "gather_ahead": "gather_n_step_transitions",
    "sweep_drawn": "sweep_sampled",
    "draw_action": "sample_action",
    "draw_choice": "sample_choice",
    "slope_of_log": "grad_log_density",
    "slope_of_divergence": "grad_kl",
}
"""Words, and what is said instead."""
IN_LEARNERS = {
    "Drawn": "SampledBatch",
    "drawn": "sampled",
    "drew": "sampled",
    "draw": "sample",
    "draws": "samples",
    "places": "indices",
    "serial": "episode_id",
    "serials": "episode_ids",
}
"""The same for code in rl_agent, but for names in checkpoints; elsewhere these are good words."""
PATTERN = re.compile(r"\b(" + "|".join(map(re.escape, RETIRED)) + r")\b")


def pages() -> list[Path]:
    """Collect code, pages and settings, except for results and the changelog, which record the past."""
    listed = subprocess.run(
        ["git", "ls-files", "*.py", "*.md", "*.yaml", "*.html"],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if listed.returncode:
        pytest.skip("there is a copy without git here")
    old = (
        "benchmarks/results/", "coupling/agents/", "CHANGELOG.md", "tests/test_vocabulary.py",
        "rl_agent/config/old_names.py", "tests/rl_agent/config/test_old_names.py",
        "tests/coupling/settings/test_old_settings.py",
    )  # fmt: skip
    return [
        ROOT / name
        for name in listed.stdout.split()
        if not name.startswith(old) and (ROOT / name).exists()
    ]


def test_retired_words_are_gone() -> None:
    found = [
        f"{page.relative_to(ROOT)}:{number}: {match[0]!r}: say {RETIRED[match[0]]!r}"
        for page in pages()
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        for match in PATTERN.finditer(line)
    ]
    assert not found, "\n".join(found)


def test_rl_agent_uses_the_fields_words_for_sampling_and_storage() -> None:
    pattern = re.compile(r"""(?<!")\b(""" + "|".join(IN_LEARNERS) + r""")\b(?!")""")
    found = [
        f"{page.relative_to(ROOT)}:{number}: {match[0]!r}: say {IN_LEARNERS[match[0]]!r}"
        for page in pages()
        if page.parent.is_relative_to(ROOT / "rl_agent") and page.name != "colours.py"
        for number, line in enumerate(page.read_text(encoding="utf-8").splitlines(), 1)
        for match in pattern.finditer(line)
    ]
    assert not found, "\n".join(found)
    assert pattern.search("steps that were drawn")
    assert not pattern.search('"draws": redrawn')


def test_pattern_finds_every_retired_word() -> None:
    assert all(PATTERN.search(f"it is {word}, so") for word in RETIRED)
    assert not PATTERN.search("the latest nearnesses")
