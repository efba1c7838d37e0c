"""Tables list the settings in which their rows differ: all that an algorithm reads, and no others."""

from benchmarks.learning.suites.settings import (
    differences,
    row_name,
    shared_differences,
    what_differs,
)
from rl_agent.config import AgentConfig


def training(env_options=None, training_options=None, episodes=10, **agent):
    written = AgentConfig.model_validate(agent).model_dump(mode="json", exclude={"defaults"})
    settings = {
        "agent": written,
        "env_options": env_options or {},
        "training_options": training_options or {},
    }
    evaluation = {"deterministic": {"episodes": episodes}}
    return {"settings": settings, "steps": 1000, "evaluation": evaluation}


def cells(lines):
    """Return the settings of each row by its name."""
    rows = [line.strip("| ").split(" | ") for line in lines[2:]]
    return {name: set(settings.split(", ")) for name, settings in rows}


def test_buffer_size_and_ratio_of_steps_are_named():
    base = {"algorithm": "vracer", "buffer_size": 4096, "learning_starts": 1000}
    more = base | {"buffer_size": 16384, "env_steps_per_gradient_step": 0.25}
    found = cells(differences({"one": [training(**base)], "other": [training(**more)]}))
    assert found["one"] == {"buffer_size 4096", "env_steps_per_gradient_step 1"}
    assert found["other"] == {"buffer_size 16384", "env_steps_per_gradient_step 0.25"}


def test_settings_that_an_algorithm_does_not_read_are_left_out():
    """PPO has no memory; V-RACER no horizon."""
    off, on = {"algorithm": "vracer"}, {"algorithm": "ppo"}
    found = cells(differences({"V-RACER": [training(**off)], "PPO": [training(**on)]}))
    assert not any(cell.startswith("buffer_size") for cell in found["PPO"])
    assert not any(cell.startswith("horizon") for cell in found["V-RACER"])


def test_option_of_one_algorithm_is_named_if_not_its_default():
    sac = [training(algorithm="sac")]
    plain = cells(differences({"V-RACER": [training(algorithm="vracer")], "SAC": sac}))
    split = [training(algorithm="vracer", trunks="separate")]
    assert not any(cell.startswith("trunks") for cell in plain["V-RACER"])
    assert "trunks separate" in cells(differences({"V-RACER": split, "SAC": sac}))["V-RACER"]


def test_rows_without_a_difference_have_no_table():
    assert (
        differences({"one": [training(algorithm="sac")], "two": [training(algorithm="sac")]}) == []
    )


def test_differences_in_task_and_agent_are_listed():
    base = training(algorithm="sac", env_options={"cfl": 0.5, "start_range": "narrow"})
    other = training(
        algorithm="sac",
        gamma=0.9,
        env_options={"cfl": 0.5, "start_range": "paper"},
        training_options={"episode_actions": 100},
        episodes=24,
    )
    assert what_differs(base, base) == []
    assert what_differs(other, base) == [
        "start_range paper",
        "episode_actions 100",
        "evaluation episodes 24",
        "gamma 0.9",
    ]
    assert what_differs(training(algorithm="ddpg"), base) is None


def test_shared_differences_include_learning_rates_and_steps():
    """ACER's policy has a separate learning rate unless it is set, and TIS has one for all."""
    acer, tis = (training(algorithm=name, learning_rate=1e-3) for name in ("acer", "tis"))
    found = shared_differences([acer], [tis])
    assert {"algorithm", "policy_learning_rate"} <= set(found)
    assert "trust_region" not in found
    assert "steps" not in found
    assert shared_differences([acer], [acer | {"steps": 500}]) == ["steps"]


def test_row_name_mentions_centred_advantages():
    assert row_name("V-RACER, x", [training(algorithm="vracer")]) == "V-RACER, x"
    centred = [training(algorithm="vracer", center_advantages=True)]
    assert row_name("V-RACER, x", centred) == "V-RACER + centred advantages, x"


def test_row_name_uses_common_terms():
    plain = [training(algorithm="vracer")]
    name = "V-RACER, a horizon that grows, separate trunks, half by episodes"
    assert (
        row_name(name, plain)
        == "V-RACER, increasing gamma, separate trunks, half of each batch by episode"
    )
