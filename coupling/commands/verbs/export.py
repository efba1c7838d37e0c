"""flowsim export: export a trained policy."""

from pathlib import Path
from typing import Annotated

from coupling.commands import next_steps
from coupling.commands.console import loading, print_next, reporting_errors
from coupling.commands.options import Agent, Trust, written_to

__all__ = ["export"]

SHORT_HELP = "Write a trained policy as ONNX, or as an agent to share."
EXAMPLE = "flowsim export runs/first -o policy.onnx"


@reporting_errors
def export(
    path: Agent,
    output: Annotated[
        Path,
        written_to(
            "name of an .onnx file (needs the extra onnx), or of a new folder for an agent to share",
            show_default=False,
        ),
    ],
    trust: Trust = False,
) -> None:
    """Write a trained policy as an ONNX file, or as the folder of an agent that others can use."""
    with loading(f"the agent of {path}"):
        from coupling.run.agents import find_agent
        from coupling.run.export import export as write
        from coupling.run.trust import import_known_algorithm

        folder = find_agent(path)
        import_known_algorithm(folder, trust)
        said = write(folder, output)
    print(said)
    print_next(next_steps.after_export(next_steps.RunState.of(path, folder), output), trust)
