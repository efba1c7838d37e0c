"""flowsim evaluate: evaluate a trained agent."""

import json
from contextlib import nullcontext
from typing import Annotated

import typer

from coupling.commands import next_steps
from coupling.commands.console import loading, print_next, reporting_errors, reserving_stdout
from coupling.commands.options import Agent, Changes, EvaluationSeed, Json, Trust

__all__ = ["evaluate"]

SHORT_HELP = "Evaluate a trained agent against the task's baselines."
EXAMPLE = "flowsim evaluate runs/demo --episodes 50 --json"


# one argument for each option of the command, with its help text
@reporting_errors
def evaluate(
    path: Agent,
    changes: Changes = None,
    episodes: Annotated[
        int, typer.Option(min=1, max=1_000_000, help="episodes of each controller")
    ] = 24,
    deterministic: Annotated[
        bool | None,
        typer.Option(
            help="evaluate only the policy's mean action, or only sampled actions (default: both, for a policy that "
            "samples)"
        ),
    ] = None,
    seed: EvaluationSeed = 0,
    trust: Trust = False,
    max_actions: Annotated[
        int | None,
        typer.Option(
            min=1,
            help="truncate episodes after this many actions (default: the task's time limit, or 10,000 if it has "
            "none)",
            show_default=False,
        ),
    ] = None,
    as_json: Json = False,
) -> None:
    """Evaluate a trained agent against the task's baselines, with 95 % bootstrap intervals of the mean return."""
    with loading(f"the agent of {path}"):
        from coupling.evaluation.evaluate import SAMPLED, evaluate_with_baselines
        from coupling.run.agents import find_agent
        from coupling.run.policies import load_controller
        from coupling.run.screen import ConsoleScreen, reporting_stalls
        from coupling.run.selection import describe_choice
        from coupling.run.trust import config_to_run
        from coupling.settings import EXTERNAL
        from coupling.settings.config import on_another_task
        from coupling.worker.env_registry import draws_itself, is_flow

    with reserving_stdout() if as_json else nullcontext():
        folder = find_agent(path)
        config = on_another_task(config_to_run(folder, trust), changes or [])
        is_external = config.env == EXTERNAL
        has_both = deterministic is None and config.agent.is_stochastic and not is_external
        with ConsoleScreen() as screen:
            if is_external:
                from coupling.run.external_evaluation import evaluate_external

                result = evaluate_external(
                    folder, config, screen,
                    episodes=episodes, deterministic=deterministic is not False, seed=seed,
                    max_actions=max_actions,
                )  # fmt: skip
            else:
                # a flow itself reports its compilation and development
                what = f"no action of env = {config.env!r} has finished"
                silence = (
                    nullcontext(lambda: None)
                    if is_flow(config.env)
                    else reporting_stalls(what, screen.say)
                )
                with silence as acted:

                    def progress(name: str, over: int, actions: int) -> None:
                        acted()
                        screen.evaluating(name, over, episodes, actions)

                    result = evaluate_with_baselines(
                        config.env,
                        config.env_options,
                        load_controller(
                            folder, deterministic=deterministic is not False, seed=seed
                        ),
                        episodes=episodes,
                        seed=seed,
                        sampled=load_controller(folder, deterministic=False, seed=seed)
                        if has_both
                        else None,
                        progress=progress,
                        max_actions=max_actions,
                    )
    choice = describe_choice(folder)
    if as_json:
        print(json.dumps(result | {"env_options": config.env_options, "policy": choice or None}))
    else:
        from coupling.run.tables import print_results

        name = SAMPLED if deterministic is False else "agent, mean action" if has_both else "agent"
        also = {SAMPLED: result["sampled"]} if has_both else {}
        # an external program chooses its episodes after the first one itself
        known = None if is_external else seed
        print_results({name: result} | also | result["baselines"], known)
        if choice:
            print(f"agent: {choice}")
        state = next_steps.RunState.of(path, folder, draws_itself=draws_itself(config.env))
        print_next(next_steps.after_evaluation(state, changes or []), trust)
