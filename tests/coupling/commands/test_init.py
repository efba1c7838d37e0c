"""A task made by `flowsim init` works unchanged."""

import subprocess
import sys

import pytest

SMALL = ["run.name=first", "run.steps=60", "run.evaluate_episodes=0", "agent.learning_starts=40", "workers.agents=2",
         "workers.processes=1"]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["flow", "gymnasium"])
def test_new_task_is_tested_trained_and_rendered(shell, kind):
    done = shell.run("init", "calm_pond", "--kind", kind)
    assert done.returncode == 0, done.stderr
    folder = shell.folder = shell.folder / "calm_pond"
    assert {file.name for file in folder.iterdir()} == {
        "README.md", "calm_pond.py", "calm_pond.yaml", "test_calm_pond.py"
    }  # fmt: skip
    assert not [
        file
        for file in folder.iterdir()
        if "my_task" in file.read_text() or "MyTask" in file.read_text()
    ]
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    tested = subprocess.run(
        command, cwd=folder, env=shell.environment, capture_output=True, text=True, timeout=600
    )
    assert tested.returncode == 0, tested.stdout
    small = [*SMALL, "env_options.cells_per_diameter=8"] if kind == "flow" else SMALL
    trained = shell.run("train", "calm_pond.yaml", *small)
    assert trained.returncode == 0, trained.stderr
    if kind == "flow":
        shown = shell.run(
            "render", "runs/first", "-o", "film.png", "--actions", "2", "--episodes", "1"
        )
        assert shown.returncode == 0, shown.stderr
        assert (folder / "film.png").exists()


def test_new_c_solver_is_trained(shell, c_tools):
    done = shell.run("init", "hill", "--kind", "c")
    assert done.returncode == 0, done.stderr
    shell.folder = shell.folder / "hill"
    made = subprocess.run(["make"], cwd=shell.folder, capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    learner = shell.start("serve", "hill.yaml", "run.steps=400", "agent.learning_starts=100")
    connection = shell.folder / "runs" / "hill" / "connection.json"
    while not connection.exists():
        assert learner.poll() is None, learner.stderr.read()
    solver = subprocess.run(
        ["./hill", connection, "0", "4"], cwd=shell.folder, capture_output=True, timeout=600
    )
    assert solver.returncode == 0, solver.stderr
    said, _ = learner.communicate(timeout=600)
    assert learner.returncode == 0, said


@pytest.mark.parametrize("name", ["My-Task", "2nd", "a__b"])
def test_invalid_module_name_is_refused(shell, name):
    done = shell.run("init", name)
    assert done.returncode == 2
    assert "lowercase letters" in done.stderr


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("class", "is a Python keyword"),
        ("numpy", "would hide the module of that name"),
        ("json", "would hide the module of that name"),
        ("cases", "would hide the module of that name"),
    ],
)
def test_a_name_that_is_taken_is_refused(shell, name, why):
    """`init numpy` once wrote a numpy.py, which the task then imported."""
    done = shell.run("init", name)
    assert (done.returncode, done.stderr) == (
        2,
        f"flowsim: {name}: a task named {name} {why}; choose another name\n",
    )
    assert not (shell.folder / name).exists()


def test_unwritable_folder_is_reported(shell):
    done = shell.run("init", "/proc/mine")  # where not even root may write
    assert done.returncode == 2
    assert "the folder /proc cannot be written to" in " ".join(done.stderr.split())


def test_existing_folder_is_not_overwritten(shell):
    (shell.folder / "mine").mkdir()
    (shell.folder / "mine" / "notes").write_text("mine")
    done = shell.run("init", "mine")
    assert (done.returncode, [file.name for file in (shell.folder / "mine").iterdir()]) == (
        2,
        ["notes"],
    )
    assert "already exists" in done.stderr


WORDS = {
    "bash": {"COMP_WORDS": "flowsim wa", "COMP_CWORD": "1"},
    "zsh": {"_TYPER_COMPLETE_ARGS": "flowsim wa"},
    "fish": {"_TYPER_COMPLETE_ARGS": "flowsim wa", "_TYPER_COMPLETE_FISH_ACTION": "get-args"},
}


@pytest.mark.parametrize("name", WORDS)
def test_shell_completes_commands(shell, name):
    """The query that the script of `flowsim --install-completion` makes for `flowsim wa` is answered."""
    shell.environment |= {"_FLOWSIM_COMPLETE": f"complete_{name}"} | WORDS[name]
    assert "watch" in shell.run().stdout
