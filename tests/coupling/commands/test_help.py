"""What `--help` says at 80 columns, and what the shell completes."""

import os
import re
import subprocess
import sys

import pytest
import typer
from shell import GUARD

from coupling.commands import cli
from coupling.run.agents import describe_agents
from coupling.settings.config import load_config
from coupling.settings.content import shipped_presets
from coupling.worker.env_registry import is_flow

COMMANDS = typer.main.get_command(cli.app).commands


@pytest.fixture
def helped(monkeypatch, capsys):
    """Return what a command's help says on a terminal of 80 columns."""
    for name, value in {"COLUMNS": "80", "FORCE_COLOR": "1", "TERM": "xterm"}.items():
        monkeypatch.setenv(name, value)

    def of(*words):
        monkeypatch.setattr("sys.argv", ["flowsim", *words, "--help"])
        with pytest.raises(SystemExit) as caught:
            cli.main()
        assert caught.value.code == 0
        return re.sub(r"\x1b\[[0-9;]*m", "", capsys.readouterr().out)

    return of


@pytest.mark.parametrize("name", ["", *COMMANDS])
def test_help_is_not_truncated_at_80_columns(helped, name):
    said = helped(*([name] if name else []))
    assert max(map(len, said.splitlines())) <= 80
    assert "…" not in said
    assert not re.search(r"\w\.\.\.(?!\w)", said.replace("[KEY=VALUE]...", "")), said
    told = " ".join(said.split())
    command = COMMANDS[name] if name else None
    for parameter in command.params if command else ():
        if parameter.param_type_name == "option":
            assert all(option in told for option in parameter.opts + parameter.secondary_opts)
        if parameter.help:
            assert " ".join(parameter.help.split()) in told.replace("- ", "-")
    if not name:
        assert all(f" {command.short_help}" in told for command in COMMANDS.values())


def test_help_mentions_only_what_a_command_accepts(helped):
    for name in ("resume", "status", "watch"):
        assert "shipped agent" not in helped(name), "these need the folder of a run"
    for name in ("evaluate", "render", "plot", "report"):
        assert "shipped agent" in helped(name)
    assert "agent.gamma" in helped("train")
    assert "agent.gamma" not in helped("resume")
    assert "agent.gamma" not in helped("simulate")
    assert "cells_per_diameter" not in helped("simulate")


def complete(line: str, folder, shell: str = "bash") -> list[str]:
    """Ask as the shell's script does; the last word is the one that is typed."""
    words = line.split(" ")
    asked = {"COMP_WORDS": line, "COMP_CWORD": str(len(words) - 1)}
    if shell == "zsh":
        asked = {"_TYPER_COMPLETE_ARGS": line}
    done = subprocess.run(
        [sys.executable, "-c", PROBE], cwd=folder, capture_output=True, text=True, timeout=GUARD,
        env=os.environ | asked | {"_FLOWSIM_COMPLETE": f"complete_{shell}"},
    )  # fmt: skip
    said, _, heavy = done.stdout.rpartition("heavy:")
    assert heavy.split() == [], "completing must be fast"
    return said.split()


PROBE = """
import sys
from coupling.commands import cli

try:
    cli.main()
finally:
    heavy = ("torch", "numba", "scipy", "matplotlib")
    print("heavy:", *(name for name in heavy if hasattr(sys.modules.get(name), "__version__")))
"""


@pytest.fixture
def here(tmp_path):
    for name in ("first", "second"):
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "config.yaml").write_text(
            "env: CartPole-v1\nenv_options: {sutton_barto_reward: true}\n"
        )
    (tmp_path / "tank.yaml").write_text("nx: 64\nbodies:\n  - {shape: disk, center: [2, 1]}\n")
    return tmp_path


@pytest.mark.parametrize(
    ("line", "proposed"),
    [
        ("train d_cylinder_wake/", {n for n in shipped_presets() if n.startswith("d_cylinder_wake/")}),
        ("train en", {"env="}),
        ("train classic/pendulum run.st", {"run.steps="}),
        ("train env=CartPole-v1 agent.gamma_f", {"agent.gamma_first="}),
        ("train d_cylinder_wake/quick env_options.cells", {"env_options.cells_per_diameter="}),
        ("resume runs/fi", {"runs/first"}),
        ("resume ", {"runs/first", "runs/second"}),
        ("resume runs/first agent.", {"agent.device="}),
        ("resume runs/first run.s", {"run.steps=", "run.select_episodes=", "run.select_max_actions="}),
        ("status wak", set()),
        ("render wak", {row["agent"] for row in describe_agents() if row["agent"].startswith("wak")}),
        ("evaluate runs/first env_o", {"env_options.sutton_barto_reward="}),
        ("simulate cl", set()),  # no flow
        ("simulate elliptical_swimmer/q", {"elliptical_swimmer/quick"}),
        ("simulate tank.yaml bodies.", {"bodies.0.shape=", "bodies.0.center="}),
        ("simul", {"simulate"}),
        ("init x --ki", {"--kind"}),
    ],
)  # fmt: skip
def test_the_shell_completes_names_and_keys(here, line, proposed):
    assert set(complete(f"flowsim {line}", here)) == proposed


def test_simulate_is_completed_with_the_presets_of_all_flow_tasks(here):
    flows = {name for name in shipped_presets() if is_flow(load_config(name).env)}
    assert set(complete("flowsim simulate ", here)) == flows


def test_zsh_completes_choices(here):
    said = complete("flowsim train classic/pendulum agent.algorithm=trust", here, "zsh")
    assert {"agent.algorithm=trust-tis", "agent.algorithm=trust-a3c"} <= set(
        re.findall(r"agent\.algorithm=[a-z0-9-]+", " ".join(said))
    )
