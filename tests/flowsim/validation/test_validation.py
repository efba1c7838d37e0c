"""The validation cases that run in seconds, on their quick grids, and the processing of their results."""

import json
import math

import numpy as np
import pytest

from coupling.commands import cli
from flowsim import Disk, Grid, Sides, Simulation
from flowsim.validation import CASES, run_case, smooth, store
from flowsim.validation.cylinder import (
    STREAM,
    Box,
    drag_and_lift,
    morison,
    richardson,
    shedding_values,
    wake_length,
)
from flowsim.validation.free_bodies import RELEASE_VISCOSITY, exact_release
from flowsim.validation.impulsive import bar_lev_yang
from flowsim.validation.report import write_page
from flowsim.validation.result import (
    Curve,
    DivergedError,
    Effort,
    Picture,
    Plot,
    Result,
    Row,
    Setup,
    advance,
    compare,
    follow,
)

QUICK = Effort(quick=True)
SETUP = Setup("8 x 8", "1 x 1", 0.1, 8.0, 0.5, 0.01, "slip, slip, slip, slip", "float64", "ab2")
PROVENANCE = {
    "commit": "0123456789ab",
    "versions": {"flowsim": "0", "numpy": "0", "numba": "0"},
    "machine": {"cpu": "a CPU", "cores": 2},
    "threads": 1,
    "time": "2026-01-01T00:00:00",
}


# --- physics ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name",
    [
        "taylor-green",
        "lamb-oseen",
        "cavity-100",
        "cavity-400",
        "cavity-1000",
        "cylinder-40",
        "cylinder-100",
        "short-times",
        "impulsive-550",
        "sedimenting",
        "frames",
        "oscillating",
        "added-mass",
        "order",
        "endless-channel",
        "kolmogorov",
        "growth",
        "side-heated-1e4",
        "onset",
        "rayleigh-benard",
    ],
)
def test_quick_rows_meet_their_references(name: str) -> None:
    result, _ = run_case(name, QUICK)
    failed = [
        f"{row.quantity}: {row.value} beside {row.reference}"
        for row in result.rows
        if not row.passed
    ]
    assert not failed, "; ".join(failed)


def test_single_precision_agrees_with_double() -> None:
    errors = []
    for dtype in ("float32", "float64"):
        sim, exact = smooth.taylor_green_flow(32, Effort(), dtype=dtype)
        errors.append(np.abs(np.stack([sim.u[0], sim.v[0]]) - exact)[:, 2:-2, 2:-2].max())
    assert abs(errors[0] - errors[1]) < 1e-5


def test_diverged_simulation_gives_a_failed_row(monkeypatch: pytest.MonkeyPatch) -> None:
    def explode(effort: Effort) -> Result:
        sim = Simulation(Grid(16, 16, 0.1), viscosity=0.01)
        sim.u[0, 8, 8] = 1e6
        advance(sim, 1.0)
        return Result([])

    monkeypatch.setitem(CASES, "bomb", ("it blows up", explode))
    with pytest.raises(ValueError, match="name = 'bom': the cases are"):
        run_case("bom", QUICK)
    result, _ = run_case("bomb", QUICK)
    assert not result.rows[0].passed
    assert "blew up" in result.rows[0].quantity
    row = store.as_rows("bomb", result, 1.0, quick=True)[0]
    assert row["value"] is None
    assert row["passed"] is False


def test_drag_of_a_disk_does_not_depend_on_its_place_in_the_grid() -> None:
    """The wall lies at the surface, not at the last point inside, so its place in the grid hardly matters."""
    drags = []
    for place in ((0.0, 0.0), (0.25, 0.5), (0.5, 0.25), (0.1, 0.1)):
        center = 2.5 + place[0] / 12, 3 + place[1] / 12
        sim = Box((7, 6), center, 12, STREAM).simulation(
            Disk(center=center), Effort(), viscosity=1 / 40
        )
        history = follow(sim, 4.0, Effort(), drag_and_lift)
        drags.append(history[history[:, 0] > 3.0, 1].mean())
    assert np.ptp(drags) < 0.01 * np.mean(drags)


@pytest.mark.parametrize(("density", "time"), [(0.1, 0.05), (2.0, 0.1)])
def test_a_released_disk_starts_with_its_added_mass_and_the_friction_of_a_plate(
    density: float, time: float
) -> None:
    """At short times friction and pressure of the boundary layer take 4 sqrt(pi nu t) times the acceleration."""
    potential = time * (density - 1) / (density + 1)
    slowed = (2 / 3) * 4 * np.sqrt(np.pi * RELEASE_VISCOSITY * time) / ((density + 1) * np.pi / 4)
    assert exact_release(density, time) == pytest.approx(potential * (1 - slowed), rel=2e-3)


# --- measures --------------------------------------------------------------------------------------------------------


def test_errors_are_relative_to_the_nearer_end_of_an_interval() -> None:
    assert compare("q", 1.5, (1.0, 2.0), 0.0, SETUP, "").passed
    assert compare("q", 2.2, (1.0, 2.0), 0.05, SETUP, "").error == pytest.approx(0.1)
    assert compare("q", -0.9, -1.0, 0.05, SETUP, "").error == pytest.approx(0.1)
    assert compare("q", 0.01, 0.0, 0.02, SETUP, "").passed
    assert not compare("q", math.nan, 1.0, 10.0, SETUP, "").passed


def test_shedding_values_of_a_known_signal() -> None:
    t = np.linspace(0, 50, 5003)
    history = np.stack(
        [t, 1.3 + 0.01 * np.sin(4 * np.pi * 0.164 * t), 0.33 * np.sin(2 * np.pi * 0.164 * t)],
        axis=1,
    )
    drag, lift, strouhal = shedding_values(history, 10.0)
    assert drag == pytest.approx(1.3, abs=1e-4)
    assert lift == pytest.approx(0.33, abs=1e-4)
    assert strouhal == pytest.approx(0.164, abs=1e-4)
    assert np.isnan(shedding_values(history, 45.0)).all()


def test_richardson_recovers_limit_and_order() -> None:
    h = np.array([2.25, 1.5, 1.0])
    for order in (1.0, 1.5, 2.0):
        limit, error = richardson(3.0 + 0.1 * h**order, 1.5)
        assert limit == pytest.approx(3.0)
        assert error == pytest.approx(0.1 / 3.0)


def test_morison_recovers_its_coefficients() -> None:
    t = np.linspace(0, 2 * np.pi, 401)
    speed, acceleration = -np.cos(t), np.sin(t)
    force = -0.5 * 2.09 * np.abs(speed) * speed - 0.25 * np.pi * 1.45 * acceleration
    assert morison(t, force, speed, acceleration) == pytest.approx((2.09, 1.45))


def test_bar_lev_and_yang_agrees_with_the_vortex_method() -> None:
    """Koumoutsakos and Leonard give 1.025 at T = 0.2, that is t = 0.1, for Re 550."""
    assert bar_lev_yang(np.array([0.1]), 550.0) == pytest.approx(1.025, rel=0.02)


def test_wake_length_is_where_the_axis_velocity_turns() -> None:
    sim = Simulation(
        Grid(64, 32, 0.125), Sides(), [Disk(center=(2.0, 2.0))], viscosity=0.1, dtype="float64"
    )
    sim.u[0] = sim.grid.u_faces()[0] - 3.7
    assert wake_length(sim) == pytest.approx(1.2, abs=1e-6)
    sim.u[0] = 1.0
    assert math.isnan(wake_length(sim))


def test_follow_calls_back_at_every_step_and_ends_on_time() -> None:
    sim = Simulation(Grid(16, 16, 0.25), viscosity=0.01)
    told: list[float] = []
    seen = follow(sim, 2.5, Effort(progress=told.append), lambda sim: (float(sim.steps[0]),))
    assert list(seen[:, 1]) == list(range(1, int(sim.steps[0]) + 1))
    assert seen[-1, 0] == pytest.approx(2.5)
    assert told
    assert all(0 < part <= 1 for part in told)
    sim.u[:] = np.nan
    with pytest.raises(DivergedError):
        follow(sim, 1.0, Effort(), lambda sim: ())


# --- files and the command -------------------------------------------------------------------------------------------


def small_result() -> Result:
    """A result with everything in it."""
    sim = Simulation(Grid(16, 8, 0.5), Sides(), [Disk(center=(2.0, 2.0))], viscosity=0.1)
    row = compare("C_D", 1.33, (1.32, 1.37), 0.03, Setup.of(sim), "somebody (1999)")
    curves = [Curve.of("ours", [1, 2, 3], [1, 2, 1]), Curve.of("theirs", [1.0], [2.0], points=True)]
    return Result(
        [row], [Plot("drag", "t", "C_D", curves)], [Picture.of("wake", sim, (1.0, 6.0, 1.0, 3.0))]
    )


def stored(folder, name="cylinder-100", quick=False):
    result = small_result()
    return result, store.write(
        folder, name, result, store.as_rows(name, result, 1.5, quick), quick, PROVENANCE
    )


def test_stored_result_is_read_back_unchanged(tmp_path) -> None:
    result, path = stored(tmp_path)
    again = store.read(path)
    assert again["plots"] == list(result.plots)
    assert (again["pictures"][0].levels == result.pictures[0].levels).all()
    assert again["pictures"][0].size == (5.0, 2.0)
    assert again["rows"][0]["grid"] == "16 x 8"
    assert again["rows"][0]["blockage"] == 0.25
    assert again["commit"] == "0123456789ab"
    assert sorted(tmp_path.iterdir()) == [path], "nothing is left beside it"


def test_the_page_shows_tables_plots_and_pictures(tmp_path) -> None:
    stored(tmp_path / "raw")
    stored(tmp_path / "raw", "cylinder-40", quick=True)
    missing = write_page(tmp_path / "raw", tmp_path / "docs" / "studies" / "validation.md")
    page = (tmp_path / "docs" / "studies" / "validation.md").read_text()
    assert "| C_D | 1.33 | 1.32 to 1.37 | 0 % | 3 % | yes | 16 x 8 | 8 x 4 | 25 % |" in page
    assert "Quick run" in page
    assert "taylor-green" in missing
    assert "taylor-green" in page
    for name in ("drag", "wake"):
        assert f"(images/validation/cylinder-100-{name}.png)" in page
        assert (
            tmp_path / "docs" / "studies" / "images" / "validation" / f"cylinder-100-{name}.png"
        ).stat().st_size > 500


def test_page_refuses_files_that_are_not_results(tmp_path) -> None:
    with pytest.raises(ValueError, match="holds no results"):
        write_page(tmp_path, tmp_path / "page.md")
    (tmp_path / "cylinder-100.json").write_text('{"rows": []')
    with pytest.raises(ValueError, match=r"cylinder-100\.json is not a result"):
        write_page(tmp_path, tmp_path / "page.md")
    assert not (tmp_path / "page.md").exists()


def command(words, monkeypatch, capsys):
    """Run the command in this process; return exit code, stdout and stderr."""
    monkeypatch.setattr("sys.argv", ["flowsim", *words])
    with pytest.raises(SystemExit) as caught:
        cli.main()
    out = capsys.readouterr()
    return caught.value.code, out.out, out.err


def test_validate_prints_json_and_stores_the_result(tmp_path, monkeypatch, capsys) -> None:
    words = ["validate", "--case", "lamb-oseen", "--quick", "--threads", "1", "-o", str(tmp_path)]
    code, out, _ = command([*words, "--json"], monkeypatch, capsys)
    assert code == 0
    report = json.loads(out)
    assert {"machine", "rows"} == set(report)
    columns = {
        "case",
        "quantity",
        "value",
        "reference",
        "error",
        "tolerance",
        "passed",
        "grid",
        "box",
        "seconds",
    }
    assert all(columns <= set(row) for row in report["rows"])
    assert json.loads((tmp_path / "lamb-oseen.quick.json").read_text())["rows"] == report["rows"]


def test_validate_help_has_an_example(monkeypatch, capsys) -> None:
    code, out, _ = command(["validate", "--help"], monkeypatch, capsys)
    assert code == 0
    assert "Example: flowsim validate " in out


def test_validate_fails_when_a_row_fails(tmp_path, monkeypatch, capsys) -> None:
    row = Row("q", 1.0, 2.0, "", 0.5, 0.1, "relative", SETUP)
    monkeypatch.setitem(CASES, "wrong", ("wrong", lambda effort: Result([row])))
    code, out, _ = command(
        ["validate", "--case", "wrong", "-o", str(tmp_path)], monkeypatch, capsys
    )
    assert code == 1
    assert "NO" in out


@pytest.mark.parametrize(
    ("words", "code", "sentence"),
    [
        (["--case", "nonsense"], 2, "--case nonsense: the cases are taylor-green"),
        (["--page", "page.md", "--quick"], 2, "--page"),
        (["--page", "page.md"], 1, "holds no results"),
    ],
)
def test_validate_refuses_invalid_options_in_one_sentence(
    tmp_path, monkeypatch, capsys, words, code, sentence
) -> None:
    monkeypatch.chdir(tmp_path)
    answer, out, err = command(["validate", *words], monkeypatch, capsys)
    assert answer == code
    assert sentence in err
    assert "Traceback" not in out + err
    assert list(tmp_path.iterdir()) == []
