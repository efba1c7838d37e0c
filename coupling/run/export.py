"""Implementation of `flowsim export`: a policy as an ONNX file, or as the folder of an agent."""

from pathlib import Path

import numpy as np

from coupling.errors import ConfigError, RunError
from coupling.files import refuse_unwritable
from coupling.origin import flowsim_version
from coupling.run.folder import RunFolder
from coupling.run.policies import load_policy, write_agent

__all__ = ["export"]

TOLERANCE = 1e-4
"""Largest difference between the file's actions and the policy's, in units of the range of an action."""


def export(run: RunFolder, output: Path) -> str:
    """Write the policy of a run or agent.

    Parameters
    ----------
    run
        Folder of the run or agent.
    output
        A file that ends in ``.onnx``, or a new folder.

    Returns
    -------
    str
        What was written, in one sentence.

    Raises
    ------
    ConfigError
        For a path that nothing can be written to, or a folder that is not empty.
    RunError
        If the run has no usable checkpoint, the numbers of its policy are not finite, or the ONNX file does not act as
        the policy does.
    """
    if output.suffix == ".onnx":
        refuse_unwritable("--output", output)
        return _export_onnx(run, output)
    if output.suffix:
        raise ConfigError(
            f"--output = {output}: give a file that ends in .onnx, or the name of a new folder"
        )
    refuse_unwritable("--output", output, is_folder=True)
    write_agent(run, output)
    return f"the agent is in the folder {output}; pass it to flowsim evaluate or flowsim render"


def _export_onnx(run: RunFolder, output: Path) -> str:
    """Write an ONNX file and compare its actions with those of the policy."""
    from rl_agent.saving.onnx_export import export_onnx, largest_difference

    policy, config = load_policy(run), run.config()
    numbers = policy.weights, policy.state_mean, policy.state_per_std
    if not all(np.isfinite(each).all() for each in numbers):
        raise RunError(f"the policy of {run.path} cannot be exported: its weights are not finite")
    notes = {"task": config.env, "flowsim_version": flowsim_version()}
    output.parent.mkdir(parents=True, exist_ok=True)
    export_onnx(policy, output, notes)
    difference = largest_difference(policy, output)
    if np.isnan(difference):
        raise RunError(f"{output} cannot be used: its actions, or those of the policy, are NaN")
    if difference > TOLERANCE:
        raise RunError(
            f"{output} differs from the policy: its actions differ by {difference:.2g} of their range"
        )
    rows = ", ".join(map(str, ("n", *policy.sizes.agents_axis)))
    shape = f"observation ({rows}, {policy.sizes.seen})"
    if policy.state_size:
        shape += f" and state ({rows}, {policy.state_size}), zeros at the start of an episode"
    agree = (
        "all actions equal"
        if policy.sizes.choices
        else f"actions within {difference:.1e} of their range"
    )
    return f"{output}: input {shape}; checked against the policy with ONNX Runtime ({agree})"
