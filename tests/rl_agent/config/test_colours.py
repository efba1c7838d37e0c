"""A method has one name and one colour in all plots."""

import pytest

from rl_agent.config import algorithms
from rl_agent.config.colours import method_colours, method_name, styles_of


def test_every_algorithm_has_a_name_and_a_colour():
    names = {method_name(algorithm) for algorithm in algorithms()}
    assert names <= method_colours().keys()
    assert len(names) == len(algorithms())


def test_method_name_distinguishes_refer_and_rule_1():
    assert method_name("sac", "refer-1") == "SAC + ReF-ER-1"
    assert method_name("ddpg", "refer") == "DDPG + ReF-ER"
    assert method_name("vracer", "refer") == "V-RACER"


def test_lines_of_a_plot_have_distinct_styles():
    variants = [f"V-RACER, variant {number}" for number in range(25)]
    names = [*method_colours(), *variants]
    styles = styles_of(names)
    looks = {tuple(sorted(style.items())) for style in styles.values()}
    assert len(looks) == len(names)
    assert styles_of(["SAC", "V-RACER"])["SAC"] == styles["SAC"], "whoever else is there"


@pytest.mark.parametrize("name", method_colours())
def test_colours_contrast_with_white(name):
    red, green, blue = (int(method_colours()[name][at : at + 2], 16) / 255 for at in (1, 3, 5))
    luminance = 0.2126 * red**2.2 + 0.7152 * green**2.2 + 0.0722 * blue**2.2
    assert 1.05 / (luminance + 0.05) > 1.9
