"""flowsim render: film a trained agent."""

from pathlib import Path
from typing import Annotated

import typer

from coupling.commands import next_steps
from coupling.commands.console import loading, print_next, reporting_errors
from coupling.commands.options import (
    Agent,
    Changes,
    EvaluationSeed,
    Fields,
    Fps,
    Range,
    Trust,
    shown,
    written_to,
)

__all__ = ["render"]

SHORT_HELP = "Film a trained agent next to the baselines."
EXAMPLE = "flowsim render runs/demo -o wake.mp4 --baseline zero --baseline pd"


# one argument for each option of the command, with its help text
@reporting_errors
def render(
    path: Agent,
    changes: Changes = None,
    output: Annotated[
        Path | None,
        written_to(
            "the film: .mp4, .gif, .webp, .png (its last frame) or frame-%04d.png (default: RUN.mp4)"
        ),
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(
            "--baseline",
            "--beside",
            help="baseline to show next to the agent; repeat for several (default: zero)",
        ),
    ] = None,
    episodes: Annotated[
        int,
        typer.Option(
            "--episodes",
            "--starts",
            min=1,
            help="episodes of the agent, shown side by side; the first one in a large panel",
        ),
    ] = 6,
    actions: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="maximum length of the film in actions (default: 100 for a flow, 300 for other tasks)",
        ),
    ] = None,
    gif: Annotated[bool, typer.Option(help="also write a GIF when the film is a .mp4")] = True,
    deterministic: Annotated[
        bool, typer.Option(help="act with the policy's mean action, or with sampled actions")
    ] = True,
    seed: EvaluationSeed = 0,
    trust: Trust = False,
    fields: Fields = None,
    limits: Range = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="follow the agent: show half of the box, centred on it")
    ] = False,
    fps: Fps = None,
    frames_per_action: Annotated[
        int | None, typer.Option(min=1, max=100, help="frames per action (default: 5)")
    ] = None,
) -> None:
    """Film several episodes of a trained agent and of baselines; for a flow, also the actions and their effort."""
    with loading(f"the agent of {path}"):
        from coupling.film.agent_film import evaluated
        from coupling.film.agent_film import render as film
        from coupling.run.agents import find_agent

    output = Path(f"{next_steps.stem_of(path)}.mp4") if output is None else output
    files = [output, output.with_suffix(".gif")] if gif and output.suffix == ".mp4" else [output]
    look = shown(fields, limits)
    if follow:
        look["follow"] = follow
    if frames_per_action:
        look["frames_per_action"] = frames_per_action
    endings = film(
        path, files, changes=changes or [], against=against or ["zero"], episodes=episodes, actions=actions,
        deterministic=deterministic, seed=seed, fps=fps, look=look, trust=trust,
    )  # fmt: skip
    for ending in endings:
        length = f"{ending.actions} action{'s' if ending.actions != 1 else ''}"
        measured = "".join(f", {name} {mean:.3g}" for name, mean in ending.measures.items())
        print(
            f"{ending.title}: return {ending.episode_return:.2f}, {length}, {ending.how}{measured}"
        )
    for who, how in evaluated(
        path, changes or [], against=against or ["zero"], deterministic=deterministic
    ):
        print(f"{who}: {how}")
    for file in files:
        print(file)
    state = next_steps.RunState.of(path, find_agent(path), draws_itself=True)
    print_next(next_steps.after_film(state, changes or []), trust)
