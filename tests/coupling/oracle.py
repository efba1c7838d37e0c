"""An environment whose rewards say which episode and step they belong to, so that a memory can be audited.

The reward of the s-th step of an environment's e-th episode is 1000 e + s, with e counted modulo 16000 so that float32
holds it exactly; the observations are (e, s, name, name), a name of 2 x 24 bits being drawn by each environment that is
made. Workers find this module on PYTHONPATH and register it by the id ``oracle:test/Oracle-v0``.

With ``journal`` each environment in a worker writes down every step that returned, for ``audit.py``: one write at the
very end of ``step()``. With ``meeting``, a folder, no environment of a worker takes its first step, nor its second,
before ``party`` processes have come to theirs: none of them can do the whole run alone, however late another one is,
and the learner has a step of each. ``parallel:oracle`` is an environment of several such agents, some of which end
before the others. Importing this module also arms the labelled points of ``faults.py`` that the process's
environment asks for.
"""

import ctypes
import os
import secrets
import struct
import sys
import time
from pathlib import Path

import faults
import gymnasium as gym
import numpy as np

from coupling.worker.environments import describe_task

ENTRY = struct.Struct("<IIBd2f")  # episode, step, flags, reward, action
TERMINATED, TRUNCATED = 1, 2
PROCESS = secrets.token_hex(4)


def reward_of(episode, step):
    return 1000.0 * (episode % 16000) + step


def works():
    """Whether an environment made now is one of a worker's: others are made to look at, or to evaluate a policy."""
    frame = sys._getframe()
    while frame is not None and frame.f_code is not describe_task.__code__:
        frame = frame.f_back
    return frame is None and faults.worker_module() is not None


class Oracle(gym.Env):
    observation_space = gym.spaces.Box(-np.inf, np.inf, (4,), np.float32)
    action_space = gym.spaces.Box(-1.0, 1.0, (2,), np.float32)

    def __init__(
        self, *, fail_at=0, hang_at=0, nan_at=0, hold_at=(), hold=2, step_seconds=0.0, journal="",
        meeting="", party=2,
    ):  # fmt: skip
        self.hold_at, self.hold = hold_at, hold
        self.fail_at, self.hang_at, self.nan_at, self.step_seconds = (
            fail_at,
            hang_at,
            nan_at,
            step_seconds,
        )
        self.episode, self.total = 0, 0
        self.name = np.frombuffer(secrets.token_bytes(8), np.uint32) % 2**24  # exact in float32
        self.meeting, self.party = Path(meeting) if meeting and works() else None, party
        self.journal = None
        if journal and works():
            faults.keep_found_outbox(Path(journal) / f"{PROCESS}.found")
            name = f"{PROCESS}-{self.name[0]:06x}{self.name[1]:06x}.steps"
            self.journal = os.open(Path(journal) / name, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode += 1
        self.step_number = 0
        self.last = int(self.np_random.integers(3, 30))
        return self._observation(), {}

    def step(self, action):
        assert self.action_space.contains(np.asarray(action, np.float32)), action
        if self.meeting is not None and self.total < 2:
            self._meet()
        self.total += 1
        self.step_number += 1
        time.sleep(self.step_seconds)
        if self.total in self.hold_at:
            ctypes.PyDLL(None).sleep(self.hold)  # no other thread of this process runs meanwhile
        if self.total == self.fail_at:
            raise RuntimeError("the oracle was told to fail")
        if self.total == self.hang_at and os.environ.get("FLOWSIM_PARENT"):
            time.sleep(1000)
        over = self.step_number == self.last
        terminated, truncated = over and self.last % 2 == 0, over and self.last % 2 == 1
        reward = reward_of(self.episode, self.step_number)
        if self.total == self.nan_at:
            return self._observation(), np.nan, terminated, truncated, {}
        outcome = self._observation(), reward, terminated, truncated, {}
        if self.journal is not None:
            flags = TERMINATED * terminated + TRUNCATED * truncated
            os.write(
                self.journal, ENTRY.pack(self.episode, self.step_number, flags, reward, *action)
            )
        return outcome

    def close(self):
        if self.journal is not None:
            os.close(self.journal)
            self.journal = None

    def _meet(self):
        (self.meeting / f"{self.total}-{PROCESS}").touch()
        while len(list(self.meeting.glob(f"{self.total}-*"))) < self.party:
            time.sleep(0.05)

    def _observation(self):
        return np.array([self.episode, self.step_number, *self.name], np.float32)


class World:
    """Oracles that act together: each may come to its end at an even step, all that are left do so at the last one."""

    agents: list[str]

    def __init__(self, *, count=3, fail_at=0, **options):
        self.members = {f"oracle_{number}": Oracle(**options) for number in range(count)}
        self.possible_agents = list(self.members)
        self.fail_at, self.total = fail_at, 0

    def observation_space(self, agent):
        return Oracle.observation_space

    def action_space(self, agent):
        return Oracle.action_space

    def reset(self, seed=None, options=None):
        self.agents = list(self.possible_agents)
        first = self.members[self.agents[0]]
        seen = {name: member.reset(seed=seed)[0] for name, member in self.members.items()}
        last = first.last
        for member in self.members.values():
            early = 2 * int(first.np_random.integers(2, 15))
            member.last = min(early, last)
        return seen, {name: {} for name in self.agents}

    def step(self, actions):
        assert list(actions) == self.agents
        self.total += 1
        if self.total == self.fail_at:
            raise RuntimeError("the oracle was told to fail")
        outcomes = {name: self.members[name].step(action) for name, action in actions.items()}
        parts = [{name: outcome[part] for name, outcome in outcomes.items()} for part in range(5)]
        self.agents = [name for name in self.agents if not (parts[2][name] or parts[3][name])]
        return tuple(parts)

    def close(self):
        for member in self.members.values():
            member.close()


parallel_env = World
gym.register(id="test/Oracle-v0", entry_point="oracle:Oracle")
faults.arm()
