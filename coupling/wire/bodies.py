"""Decoding of RESET and STEP of any minor version into the arrays of a run.

Only this module handles frames of version 1.0 with several agents. Before version 1.1, flowsim encoded a multi-agent
environment as one agent, whose observation consisted of, for each agent in turn, its observation, its reward (0 at a
reset) and whether it had ended (1 or 0). Experience logs and outboxes of that time contain such frames, and a worker of
that time may still be in its session.
"""

from dataclasses import replace

import numpy as np

from coupling.wire.protocol import Header, Kind, Step, decode_observations, decode_step

__all__ = ["read_body"]

_EXTRAS = 2
"""Numbers after the observation of each agent: its reward, and whether it has ended."""


def read_body(
    header: Header, body: bytes, observation_size: int, agents_per_env: int = 1
) -> np.ndarray | Step:
    """Read the body of RESET or STEP.

    Parameters
    ----------
    header, body
        Header and body of the frame.
    observation_size, agents_per_env
        Floats in an observation of an agent (S), and agents in an environment (N) of the run.

    Returns
    -------
    np.ndarray or Step
        First observations of n environments, (n, S), or a step; with an axis of agents, (n, N, S), if there are
        several.

    Raises
    ------
    ProtocolError
        If the body does not match its header.
    """
    n, size, together = header.environments, observation_size, agents_per_env
    if not header.minor:
        if together > 1:
            return _read_joint(header, body, size, together)
        return (
            decode_step(body, n, size) if _is_step(header) else decode_observations(body, n, size)
        )
    if not _is_step(header):
        first = decode_observations(body, n, together, size)
        return first if together > 1 else first[:, 0]
    step = decode_step(body, n, size, together)
    return step if together > 1 else _of_one_agent(step)


def _is_step(header: Header) -> bool:
    return header.kind is Kind.STEP


def _of_one_agent(step: Step) -> Step:
    """Return a step of single-agent environments without the axis of agents."""
    parts = {name: getattr(step, name)[:, 0] for name in ("rewards", "observations", "final")}
    return replace(step, **parts, agent_ended=None)


def _read_joint(header: Header, body: bytes, size: int, agents: int) -> np.ndarray | Step:
    """Read a frame of version 1.0 with several agents."""
    n, width = header.environments, agents * (size + _EXTRAS)
    if not _is_step(header):
        return _apart(decode_observations(body, n, width), agents)[..., :-_EXTRAS]
    step = decode_step(body, n, width)
    resulting = np.array(step.observations)
    resulting[step.ended] = step.final
    # from the observation that ended an episode, not from the first one of the next
    told = np.where(step.failed[:, None, None], 0.0, _apart(resulting, agents)[..., -_EXTRAS:])
    return replace(
        step,
        rewards=told[..., 0].astype(np.float64),
        observations=_apart(step.observations, agents)[..., :-_EXTRAS],
        final=_apart(step.final, agents)[..., :-_EXTRAS],
        agent_ended=told[..., 1] > 0.5,
    )


def _apart(joint: np.ndarray, agents: int) -> np.ndarray:
    """Reshape joint observations from (n, N (S + 2)) to (n, N, S + 2)."""
    return joint.reshape(len(joint), agents, joint.shape[1] // agents)
