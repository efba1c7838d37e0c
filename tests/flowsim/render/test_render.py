"""Vorticity pictures."""

from dataclasses import replace

import numpy as np
import pytest
from PIL import ImageDraw

from flowsim import Disk, Ellipse, HalfDisk, SignedDistance, Union, polygon
from flowsim.render import action_plot, fields
from flowsim.render.quantities import QUANTITIES, VORTICITY
from flowsim.render.units import DIAMETERS, units_of


def scene(vorticity, **changes):
    return fields.Scene(values=vorticity, size=(2.0, 1.0), **changes)


def test_colours_show_the_sense_of_rotation():
    """Anticlockwise is red, clockwise is blue, still water light; y points up."""
    vorticity = np.zeros((40, 20))
    vorticity[:20, 10:] = 5.0
    vorticity[20:, :10] = -5.0
    picture = np.asarray(fields.field_picture(scene(vorticity), 200)).astype(int)
    assert picture.shape == (100, 200, 3)
    red, blue, still = picture[25, 50], picture[75, 150], picture[25, 150]
    assert red[0] > red[2] + 50
    assert blue[2] > blue[0] + 50
    assert still.min() > 200


def test_range_is_fixed_and_nan_is_drawn():
    vorticity = np.full((8, 4), 1e9)
    vorticity[0, 0] = np.nan
    brightest = np.asarray(fields.field_picture(scene(vorticity), 64))
    limit = np.asarray(fields.field_picture(scene(np.full((8, 4), 8.0)), 64))
    np.testing.assert_array_equal(brightest[:8, -8:], limit[:8, -8:])


def test_outlines_are_the_bodies():
    around = fields.outline(Ellipse(major=2.0, aspect=0.5), np.array([1.0, 2.0]), np.pi / 2)
    np.testing.assert_allclose((around - (1.0, 2.0)) ** 2 @ (1 / 0.25, 1.0), 1.0, atol=1e-12)
    half = fields.outline(HalfDisk(diameter=1.0), np.array([0.0, 0.0]), 0.0)
    assert half[:, 0].max() == pytest.approx(0.0)
    assert half[:, 0].min() == pytest.approx(-0.5, abs=1e-3)
    np.testing.assert_allclose(np.hypot(*half.T), 0.5)


def test_drawn_body_covers_exactly_its_area():
    body = fields.Outline(
        fields.outline(Ellipse(major=1.0, aspect=0.4), np.array([1.0, 0.5]), 0.0), agent=True
    )
    bare = np.asarray(fields.field_picture(scene(np.zeros((40, 20))), 400)).astype(int)
    drawn = np.asarray(fields.field_picture(scene(np.zeros((40, 20)), outlines=[body]), 400))
    changed = (np.abs(drawn.astype(int) - bare).sum(axis=2) > 60).sum() / 200.0**2
    assert changed == pytest.approx(np.pi * 0.5 * 0.2, rel=0.15)  # and its outline


TRIANGLE = [(-0.4, -0.2), (0.4, -0.2), (0.0, 0.3)]


@pytest.mark.parametrize("body", [
    Union(parts=[Disk(diameter=0.5, center=(-0.1, 0.0)), HalfDisk(center=(0.2, 0.0), angle=2.0)]),
    Union(parts=[Disk(diameter=0.3, center=(-0.4, 0.0)), Ellipse(major=0.4, center=(0.3, 0.1), angle=1.0)]),
    SignedDistance(function=lambda x, y: np.abs(np.hypot(x, y) - 0.4) - 0.1, reach=0.6),
    polygon(TRIANGLE),
], ids=["overlapping", "two pieces", "ring", "triangle"])  # fmt: skip
def test_any_shape_is_drawn_at_its_position(body):
    """The outline lies on the surface, and only its inside is filled."""
    position, angle = np.array([1.1, 0.55]), 0.4
    around = fields.outline(body, position, angle)
    still = scene(np.zeros((40, 20)), outlines=[fields.Outline(around)])
    picture = np.asarray(fields.field_picture(still, 400)).astype(int)

    def distance(points):
        x, y = (points - position).T
        return body.distance(
            np.cos(angle) * x + np.sin(angle) * y, np.cos(angle) * y - np.sin(angle) * x
        )

    assert np.abs(distance(around[np.isfinite(around[:, 0])])).max() < 0.005
    j, i = np.mgrid[:200, :400]
    far = distance(
        np.stack([(i + 0.5) / 200, 1.0 - (j + 0.5) / 200], axis=-1).reshape(-1, 2)
    ).reshape(200, 400)
    # within the frame
    inner, outer = picture[far < -0.03], picture[2:-2, 2:-2][far[2:-2, 2:-2] > 0.03]
    assert len(inner) > 500
    assert np.ptp(inner, axis=0).max() == np.ptp(outer, axis=0).max() == 0
    assert np.abs(inner[0] - outer[0]).max() > 100


def test_still_water_is_white_and_the_range_symmetric():
    picture = np.asarray(fields.field_picture(scene(np.zeros((40, 20))), 200))
    assert (picture[1:-1, 1:-1] == 255).all()  # within the frame
    darkest = [
        np.asarray(fields.field_picture(scene(np.full((40, 20), sign * 8.0)), 200))[50, 100]
        for sign in (-1, 1)
    ]
    luminance = np.array(darkest) @ (0.2126, 0.7152, 0.0722)
    assert abs(luminance[0] - luminance[1]) < 25
    assert luminance.max() < 80


def test_a_smooth_vorticity_has_no_bands():
    """Along a ramp, neighbouring colours differ by no more than eight bits require."""
    ramp = np.tile(np.linspace(-8.0, 8.0, 1000)[:, None], (1, 500))
    row = np.asarray(fields.field_picture(scene(ramp), 1000))[250, 1:-1].astype(int)
    assert len(np.unique(row, axis=0)) > 600
    assert np.abs(np.diff(row, axis=0)).max() <= 4


def rows_of(change) -> np.ndarray:
    """Return the rows in which two pictures differ."""
    before, after = change
    return np.flatnonzero((before != after).any(axis=(1, 2)))


@pytest.mark.parametrize("draw", [fields.draw_panel, fields.draw_small_panel])
def test_text_does_not_cover_the_flow(draw):
    """No row changes both with the note and with the flow."""

    def panel(vorticity=0.0, **words):
        caption = fields.Caption(
            time=1.0, episode_return=-2.0, action=(0.5, -1.0, 0.0), title="trained", **words
        )
        return draw(scene(np.full((40, 20), vorticity)), caption, 322)

    flow = rows_of((panel(), panel(5.0)))
    verdict = rows_of((panel(), panel(note="left the box after 2 actions", failed=True)))
    assert np.ptp(flow) == len(flow) - 1 == 161 - 3  # the frame does not change
    assert len(verdict) >= 20
    assert not np.intersect1d(np.arange(flow[0] - 1, flow[-1] + 2), verdict).size
    # in another colour
    assert rows_of((panel(note="over", failed=True), panel(note="over"))).size >= 20


def test_legend_has_the_colour_range_and_a_scale_bar():
    legend = fields.draw_legends(640, 18, 80.0, [VORTICITY], DIAMETERS)
    bar = legend[18]
    colours = [
        np.asarray(fields.field_picture(scene(np.full((8, 4), w)), 64))[16, 32]
        for w in (-8.0, 0.0, 8.0)
    ]
    places = [np.flatnonzero((bar == colour).all(axis=1)) for colour in colours]
    left, right = places[0].min(), places[2].max()
    assert right - left == pytest.approx(8 * 18, abs=2)
    assert ((left + right) // 2 in places[1]) or ((left + right + 1) // 2 in places[1])
    ink = np.flatnonzero((bar[:200] < 60).all(axis=1))
    assert np.ptp(ink) == pytest.approx(80, abs=2)
    assert not (
        fields.draw_legends(640, 18, 80.0, [replace(VORTICITY, limit=5.0)], DIAMETERS) == legend
    ).all()  # the numbers below the colours
    assert not (
        fields.draw_legends(640, 18, 80.0, [VORTICITY], units_of("L")) == legend
    ).all()  # the unit


@pytest.mark.parametrize(
    ("units", "of_each"),
    [
        (DIAMETERS, ["U/D", "U", "rho U^2", "(U/D)^2", "U D", "U/D", ""]),
        (units_of("L", "T"), ["1/T", "L/T", "rho L^2/T^2", "(1/T)^2", "L/T L", "1/T", ""]),
    ],
)
def test_units_are_named_as_the_flow_names_them(units, of_each, monkeypatch):
    written = []
    draw = ImageDraw.ImageDraw.text
    monkeypatch.setattr(
        ImageDraw.ImageDraw,
        "text",
        lambda self, at, text, **options: (written.append(text), draw(self, at, text, **options)),
    )
    picture = scene(np.zeros((40, 20)), units=units)
    fields.draw_panel(picture, fields.Caption(time=1.0), 322)
    fields.draw_legends(640, 18, 80.0, list(QUANTITIES.values()), units)
    assert f"t = 1.00 {units.time}" in written
    assert f"1 {units.length}" in written
    assert [quantity.unit.format(**units._asdict()) for quantity in QUANTITIES.values()] == of_each


@pytest.mark.parametrize(("width", "scale", "length"), [(720, 720.0, 0.2), (720, 90.0, 1.0)])
def test_scale_bar_leaves_room_for_the_colour_bar(width, scale, length):
    row = fields.draw_legends(width, 18, scale, [VORTICITY], DIAMETERS)[18]
    ink = np.flatnonzero((row[: width // 3] < 60).all(axis=1))
    assert np.ptp(ink) == pytest.approx(length * scale, abs=2)
    assert (row[width // 3 : width // 2] == fields.BACKGROUND).all()


def test_panel_has_even_sides_and_a_caption():
    caption = fields.Caption(
        time=1.0, episode_return=-2.0, action=(0.5, -1.0, 0.0), title="trained", note="left the box"
    )
    panel = fields.draw_panel(scene(np.zeros((40, 20))), caption, width=322)
    assert panel.dtype == np.uint8
    assert panel.shape[0] % 2 == panel.shape[1] % 2 == 0
    assert (panel[:14] < 100).any()  # ink


def test_white_picture_of_another_task_gets_a_frame():
    white = np.full((100, 100, 3), 255, np.uint8)
    picture = fields.frame_picture(white, fields.Caption(0.0, title="reacher"), "", 200)
    strip = 2 * fields.text_size(200)
    inside = picture[strip : strip + 200]
    for side in (inside[0], inside[-1], inside[:, 0], inside[:, -1]):
        assert (side == fields.FAINT).all()
    assert (inside[1:-1, 1:-1] == 255).all()


def test_axes_of_the_action_plot_are_named(monkeypatch):
    words = []
    text = ImageDraw.ImageDraw.text

    def heard(self, place, what, *args, **kwargs):
        words.append(what)
        return text(self, place, what, *args, **kwargs)

    monkeypatch.setattr(ImageDraw.ImageDraw, "text", heard)
    history = action_plot.History()
    history.add(0.0, (0.5, -0.5, 0.1))
    action_plot.draw_traces(history, 1.0, 7.0, 330, 13, DIAMETERS.time)
    assert {"action", "a", "effort", "|a|²", "force x", "force y", "torque"} <= set(words)
