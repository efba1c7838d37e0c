"""flowsim render: film a trained agent."""

from pathlib import Path
from typing import Annotated

import typer

from coupling.commands import next_steps
from coupling.commands.console import loading, print_next, told_in_a_sentence
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


# an argument for each option of the command, with what --help says of it
@told_in_a_sentence
def render(
    path: Agent,
    changes: Changes = None,
    output: Annotated[
        Path | None,
        written_to(
            "the film: .mp4, .gif, .webp, .png of its end, or frame-%04d.png; the run's name.mp4 unless given"
        ),
    ] = None,
    against: Annotated[
        list[str] | None,
        typer.Option(
            "--baseline", "--beside", help="baselines shown next to the agent (zero unless given)"
        ),
    ] = None,
    episodes: Annotated[
        int,
        typer.Option(
            "--episodes",
            "--starts",
            min=1,
            help="episodes of the agent, all at once; the first one is large",
        ),
    ] = 6,
    actions: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="length of the film in actions, at most: 100 of a flow unless given, 300 of another task",
        ),
    ] = None,
    gif: Annotated[bool, typer.Option(help="also write a GIF when the film is a .mp4")] = True,
    deterministic: Annotated[
        bool, typer.Option(help="act with the mean of the policy, or with samples of it")
    ] = True,
    seed: EvaluationSeed = 0,
    trust: Trust = False,
    fields: Fields = None,
    limits: Range = None,
    follow: Annotated[
        bool, typer.Option("--follow", help="keep the agent in the middle of half of the box")
    ] = False,
    fps: Fps = None,
    frames_per_action: Annotated[
        int | None, typer.Option(min=1, max=100, help="pictures of each action (5 unless given)")
    ] = None,
) -> None:
    """Film several episodes of a trained agent and of baselines; of a flow with its actions and their effort."""
    with loading(f"the agent of {path}"):
        from coupling.film.agent_film import evaluated
        from coupling.film.agent_film import render as film
        from coupling.run.agents import find_agent

    output = Path(f"{path.name}.mp4") if output is None else output
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
