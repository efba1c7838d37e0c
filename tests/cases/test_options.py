"""Options, presets and their one-sentence errors."""

import pytest
import yaml
from gymnasium.envs.registration import load_env_creator, registry

from cases.d_cylinder_wake.env import DCylinderWake, WakeOptions
from cases.elliptical_swimmer.env import EllipticalSwimmer
from cases.options import parse_options, preset_names

IDS = ("flowsim/DCylinderWake-v0", "flowsim/EllipticalSwimmer-v0")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"reynolds": -1.0}, ("reynolds = -1.0:", "greater than 0")),
        ({"start": "late"}, ("start = 'late':", "'developed' or 'impulsive'")),
        ({"cells_per_diameter": 8.1}, ("'cells_per_diameter'", "8.1", "even")),
        ({"cells_per_diameter": 12.125}, ("97 x 48.5", "even")),
        ({"episode_actions": 2.5}, ("episode_actions = 2.5:", "integer")),
        ({"force_scale": float("nan")}, ("force_scale = nan:", "finite")),
        ({"sides": {"left": "wall"}}, ("sides.left = 'wall':", "'inflow'")),
        ({"sides": {"lft": "open"}}, ("unknown key 'sides.lft'", "did you mean 'sides.left'?")),
        ({"sides": {"roof": "open"}}, ("unknown key 'sides.roof'", "left, right, bottom, top")),
        (
            {"preset": "quik"},
            ("unknown preset 'quik'", "default, drafting, fine, paper, quick, sketch"),
        ),
        ({"backend": "abacus"}, ("abacus", "cpu")),
    ],
)
def test_error_names_key_value_and_allowed_values(make, options, words):
    with pytest.raises(ValueError, match=r"^[^\n]*$") as error:
        make(**options)
    for word in words:
        assert word in str(error.value)


@pytest.mark.parametrize("env_id", IDS)
def test_unknown_option_is_a_type_error(make, env_id):
    """Libraries such as TorchRL try an argument (frameskip) and leave it out on this error."""
    with pytest.raises(
        TypeError,
        match=r"unexpected keyword argument 'frameskip' = 1: allowed are preset, episode_actions",
    ):
        make(env_id, frameskip=1)


def test_cells_per_diameter_may_be_fractional():
    assert (
        WakeOptions(cells_per_diameter=12.5).grid().nx,
        WakeOptions(cells_per_diameter=12.5).grid().ny,
    ) == (100, 50)


@pytest.mark.parametrize(
    "entry_point",
    [
        spec.entry_point
        for spec in registry.values()
        if spec.namespace == "flowsim" and spec.vector_entry_point
    ],
)
def test_defaults_are_the_preset_quick(entry_point):
    task = load_env_creator(entry_point).task_class
    quick, default = (
        parse_options(task.options_class, task.folder, name, {}) for name in ("quick", None)
    )
    assert quick == default


def test_presets_exist_and_name_their_task():
    assert preset_names(DCylinderWake.folder) == [
        "default",
        "drafting",
        "fine",
        "paper",
        "quick",
        "sketch",
    ]
    assert preset_names(EllipticalSwimmer.folder) == ["default", "quick"]
    for env_id, task in zip(IDS, (DCylinderWake, EllipticalSwimmer), strict=True):
        for name in preset_names(task.folder):
            assert yaml.safe_load((task.folder / f"{name}.yaml").read_text())["env"] == env_id


def test_paper_preset_has_the_papers_settings():
    paper = parse_options(WakeOptions, DCylinderWake.folder, "paper", {})
    assert (paper.grid().nx, paper.grid().ny) == (1024, 512)
    assert (paper.integrator, paper.cfl, paper.start, paper.start_range) == (
        "euler",
        0.1,
        "impulsive",
        "paper",
    )
    assert (paper.reynolds, paper.episode_actions) == (400.0, 400)
    agent = yaml.safe_load((DCylinderWake.folder / "paper.yaml").read_text())["agent"]
    assert agent["buffer_size"] == 2**18
    assert agent["learning_starts"] == 2**17


def test_given_options_override_the_preset(make):
    assert make(preset="quick", reynolds=100.0).task.options.reynolds == 100.0
