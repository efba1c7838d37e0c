"""flowsim simulate: run the solver alone."""

import sys
from pathlib import Path
from typing import Annotated, Any

import typer

from coupling.commands import completion, next_steps
from coupling.commands.console import loading, print_next, reporting_errors
from coupling.commands.options import (
    CaseChanges,
    Fields,
    Range,
    expanded,
    named_quantities,
    quantities,
    written_to,
)
from coupling.files import refuse_unwritable

__all__ = ["simulate"]

SHORT_HELP = "Run the solver alone: forces, fields, a restart file, a film."
EXAMPLE = "flowsim simulate d_cylinder_wake/quick --time 10 -o wake"


# one argument for each option of the command, with its help text
@reporting_errors
def simulate(
    case: Annotated[
        str,
        typer.Argument(
            autocompletion=completion.cases,
            metavar="CASE",
            help="preset of a flow task, or a YAML file with a grid and bodies",
            show_default=False,
            callback=expanded,
        ),
    ],
    overrides: CaseChanges = None,
    duration: Annotated[
        float,
        typer.Option(
            "--time",
            min=1e-6,
            max=1e9,
            help="end time in D/U, counted from the first start also after a restart",
        ),
    ] = 10.0,
    output: Annotated[Path, written_to("folder to write into")] = Path("simulation"),
    frames: Annotated[int, typer.Option(min=1, help="frames of the film")] = 200,
    snapshots: Annotated[int, typer.Option(min=1, help="snapshots of the fields")] = 10,
    seed: Annotated[int, typer.Option(min=0, help="seed of a task's initial condition")] = 0,
    restart_from: Annotated[
        Path | None,
        typer.Option(
            help="restart.h5 of an earlier simulation of this case, to continue it bit for bit",
            show_default=False,
            callback=expanded,
        ),
    ] = None,
    max_size: Annotated[
        str | None,
        typer.Option(
            help="maximum size of the folder, in MB or with a unit, such as 2GB; rows and snapshots are thinned to "
            "stay below it"
        ),
    ] = None,
    control_volumes: Annotated[
        bool, typer.Option(help="also measure forces by control volumes (slower)")
    ] = True,
    fields: Fields = None,
    limits: Range = None,
    follow: Annotated[
        int | None,
        typer.Option(
            min=0,
            metavar="BODY",
            help="keep this body in the middle of the film; bodies are numbered from 0",
        ),
    ] = None,
    fps: Annotated[
        float | None,
        typer.Option(min=1.0, max=120.0, help="frames per second of the film (default: 25)"),
    ] = None,
    netcdf: Annotated[
        bool,
        typer.Option(
            "--netcdf",
            help="also write the record and statistics as NetCDF (needs the extra xarray)",
        ),
    ] = False,
) -> None:
    """Run the solver alone: forces to CSV, fields for ParaView, restart file, a film of vorticity or temperature."""
    with loading(f"the solver for {case}"):
        from coupling.run.screen import progress_bar
        from coupling.simulation.case import load_case, smaller_step
        from coupling.simulation.files import parse_size
        from coupling.simulation.simulate import Output
        from coupling.simulation.simulate import simulate as run_solver

    refuse_unwritable("--output", output, is_folder=True)
    size = None if max_size is None else parse_size(max_size)
    shown = named_quantities(fields, limits)
    simulation = load_case(case, overrides or [], seed)
    if not shown:
        shown = quantities("vorticity" if simulation.heat is None else "temperature", limits)
    print(simulation.describe(), file=sys.stderr)
    with progress_bar("simulating") as progress:
        ending = run_solver(
            simulation,
            duration,
            Output(
                output,
                frames=frames,
                snapshots=snapshots,
                restart_from=restart_from,
                max_size=size,
                control_volumes=control_volumes,
                title=Path(case).stem if Path(case).is_file() else case,
                shown=shown,
                follow=follow,
                netcdf=netcdf,
                **{"fps": fps} if fps else {},
            ),
            say=lambda text: print(f"flowsim: {text}", file=sys.stderr),
            progress=progress,
        )
    print(f"{output}: {ending.why}")
    diverged = bool(simulation.diverged[0])
    options: dict[str, Any] = {
        "--time": duration, "-o": output, "--frames": frames, "--snapshots": snapshots, "--seed": seed or None,
        "--max-size": max_size, "--no-control-volumes": None if control_volumes else True, "--fields": fields,
        "--range": limits, "--follow": follow, "--fps": fps,
        "--netcdf": netcdf or None,
    }  # fmt: skip
    print_next(
        next_steps.after_simulation(
            case,
            overrides or [],
            options,
            complete=ending.complete,
            smaller_step=smaller_step(case, simulation) if diverged else None,
        )
    )
    if diverged:
        raise typer.Exit(1)
