"""The replay memory: whole episodes in a ring of steps, removed first in, first out.

Only completed episodes enter (as in the original implementation): the value target of an open episode
would need a bootstrap that changes with every step; pieces of long ones (``fragment_length``) count as
episodes here. The steps of an episode lie next to each other (modulo
the end of the ring), every quantity in its own contiguous array. Per step the memory keeps what was
observed and done, the behaviour {mean, std} it was done with, and the last computed V, rho, V_tbc, KL and
far-policy flag (and A(s, a), where it has a closed form). Per episode it keeps the final observation and its
value: 0 after termination, V(s_T) after truncation, computed when the episode ends and again at every full sweep.

A world of N agents that act together enters as N episodes of the same length, one behind the other, and leaves as
such; so each agent has its own backward sweep, and the N steps of one moment are found from any of them.

What is written, drawn, refreshed and removed are places of the same ring, so all that knows its order is in one file.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

from rl_agent.replay import targets
from rl_agent.replay.batch import Batch, Transitions, gather_following, gather_steps, gather_windows
from rl_agent.replay.refer import is_near_policy
from rl_agent.runtime.jit import compiled

__all__ = ["Episode", "EpisodeMemory"]

F32 = npt.NDArray[np.float32]
I64 = npt.NDArray[np.int64]

EPISODE_STEP_FIELDS = (
    "observation",
    "action",
    "behaviour_mean",
    "behaviour_std",
    "reward",
    "value",
)
STEP_FIELDS = (
    "observation",
    "action",
    "behaviour_mean",
    "behaviour_std",
    "reward",
    "value",
    "advantage",
    "rho",
    "v_tbc",
    "kl",
    "far",
    "position",
    "serial",
)
COUNTERS = ("first_serial", "next_serial", "tail", "size", "steps", "n_far", "added")
TABLE_FIELDS = ("start", "length", "present", "terminated", "final_observation", "final_value")


@dataclass(frozen=True)
class Episode:
    """One completed episode of L >= 1 steps, as it enters the memory.

    Attributes
    ----------
    observation
        s_0 ... s_{L-1}, shape (L, S), unscaled.
    action
        Raw (unclipped) actions of the policy, shape (L, A).
    behaviour_mean, behaviour_std
        Statistics of the policy mu that drew the actions, shape (L, A) for a Gaussian. For discrete actions the mean
        holds the probabilities, shape (L, K), and the standard deviation nothing, shape (L, 0).
    reward
        r_1 ... r_L, shape (L,), unscaled.
    value
        V(s_t) when the action was drawn, shape (L,).
    final_observation
        s_L, shape (S,).
    final_value
        V(s_L), 0 if ``terminated``; in a cooperative world the mean of these over its agents.
    terminated
        Whether s_L is a terminal state (else the episode was cut short).
    present
        Steps that the agent took part in; fewer than L where it ended before the others of its world. What stands in
        the steps after these is not an experience.
    """

    observation: F32
    action: F32
    behaviour_mean: F32
    behaviour_std: F32
    reward: F32
    value: F32
    final_observation: F32
    final_value: float
    terminated: bool
    present: int | None = None


class EpisodeMemory:
    """A ring of at most ``capacity`` steps that holds whole episodes.

    Parameters
    ----------
    capacity
        Most steps held (N).
    observation_size, action_size
        Components of a state and of an action.
    choices
        Number of discrete actions; 0 for continuous ones.
    world
        Agents that act together (N). ``capacity`` is in steps of a world; each has N places.
    decay
        Lambda of the value targets (``rl_agent/replay/targets.py``).
    dtype
        Of the observations: ``uint8`` for pictures, of which a million of 84 x 84 then take 7 GB.

    Attributes
    ----------
    observation, action, behaviour_mean, behaviour_std, reward, value, advantage, rho, v_tbc, kl, far, position, serial
        Ring arrays, one row per place. ``position`` is the step's index in its episode, ``serial`` the
        running number of that episode.
    start, length, present, terminated, final_observation, final_value
        Episode table, row ``serial % len(start)``.
    size
        Number of places in use.
    steps
        Number of experiences: the places in use whose agents took part in their step. In worlds that agents leave
        early there are fewer of them than places.
    n_far
        Number of experiences whose ``far`` flag is set.
    added
        Number of places ever filled.
    """

    def __init__(
        self,
        capacity: int,
        observation_size: int,
        action_size: int,
        choices: int = 0,
        world: int = 1,
        decay: float = 1.0,
        dtype: npt.DTypeLike = np.float32,
    ) -> None:
        self.world = world
        self._decay = np.float32(decay)
        self.capacity = capacity = capacity * world
        self.observation: npt.NDArray[Any] = np.zeros((capacity, observation_size), dtype)
        self.action = np.zeros((capacity, action_size), np.float32)
        self.behaviour_mean = np.zeros((capacity, choices or action_size), np.float32)
        self.behaviour_std = np.zeros((capacity, 0 if choices else action_size), np.float32)
        self.reward = np.zeros(capacity, np.float32)
        self.value = np.zeros(capacity, np.float32)
        self.advantage = np.zeros(capacity, np.float32)
        self.rho = np.zeros(capacity, np.float32)
        self.v_tbc = np.zeros(capacity, np.float32)
        self.kl = np.zeros(capacity, np.float32)
        self.far = np.zeros(capacity, np.bool_)
        self.position = np.zeros(capacity, np.int64)
        self.serial = np.zeros(capacity, np.int64)
        rows = 64 * world
        self.start = np.zeros(rows, np.int64)
        self.length = np.zeros(rows, np.int64)
        self.present = np.zeros(rows, np.int64)
        self.terminated = np.zeros(rows, np.bool_)
        self.final_observation: npt.NDArray[Any] = np.zeros((rows, observation_size), dtype)
        self.final_value = np.zeros(rows, np.float32)
        self.first_serial = 0
        self.next_serial = 0
        self.tail = 0
        self.size = 0
        self.steps = 0
        self.n_far = 0
        self.added = 0

    @property
    def episodes(self) -> int:
        """Number of episodes held."""
        return self.next_serial - self.first_serial

    @property
    def world_steps(self) -> int:
        """Number of steps held, each of all agents of a world."""
        return self.size // self.world

    @property
    def oldest(self) -> int:
        """Number of steps that have been forgotten, which is the number of the oldest one that is held."""
        return self.added - self.size

    def add(self, episodes: Episode | Sequence[Episode], gamma: float, reward_scale: float) -> None:
        """Store an episode, or those of all agents of a world, after removing as many of the oldest as need be.

        The steps start with rho = 1 and KL = 0: the policy that acted is the current one, give or take the
        gradient steps taken meanwhile.

        Raises
        ------
        ValueError
            If it is longer than the whole memory, has no steps, or is not of the agents of a world.
        """
        together = [episodes] if isinstance(episodes, Episode) else episodes
        lengths = {len(episode.reward) for episode in together}
        if len(together) != self.world or len(lengths) != 1:
            raise ValueError(
                f"a world of {self.world} agents has as many episodes of one length, not {len(together)}"
            )
        steps = lengths.pop() * self.world
        if not 0 < steps <= self.capacity:
            raise ValueError(
                f"an episode of {steps} steps does not fit a memory of {self.capacity}"
            )
        while self.size + steps > self.capacity:
            self.remove_oldest()
        if self.episodes == len(self.start):
            self._grow_table()
        rows = [self._add(episode) for episode in together]
        self._sweep(np.array(rows), gamma, reward_scale)

    def _add(self, episode: Episode) -> int:
        """Store an episode that there is room for; return its row."""
        steps = len(episode.reward)
        row = self.next_serial % len(self.start)
        self.start[row] = (self.tail + self.size) % self.capacity
        self.length[row] = steps
        self.present[row] = steps if episode.present is None else episode.present
        self.terminated[row] = episode.terminated
        self.final_observation[row] = episode.final_observation
        self.final_value[row] = episode.final_value
        places = (self.start[row] + np.arange(steps)) % self.capacity
        for name in EPISODE_STEP_FIELDS:
            getattr(self, name)[places] = getattr(episode, name)
        self.advantage[places] = 0.0
        self.rho[places] = 1.0
        self.kl[places] = 0.0
        self.far[places] = False
        self.position[places] = np.arange(steps)
        self.serial[places] = self.next_serial
        self.next_serial += 1
        self.size += steps
        self.steps += int(self.present[row])
        self.added += steps
        return row

    def remove_oldest(self) -> None:
        """Forget the oldest episode, of all agents of its world."""
        rows = np.arange(self.first_serial, self.first_serial + self.world) % len(self.start)
        steps = int(self.length[rows].sum())
        places = (self.tail + np.arange(steps)) % self.capacity
        self.n_far -= int(np.count_nonzero(self.far[places]))
        self.first_serial += self.world
        self.tail = (self.tail + steps) % self.capacity
        self.size -= steps
        self.steps -= int(self.present[rows].sum())

    def forget_before(self, serial: int) -> None:
        """Forget all episodes that were stored before the one of this number."""
        while self.first_serial < serial:
            self.remove_oldest()

    def experiences(self) -> I64:
        """Places of all stored steps in which the agents took part."""
        places = self.places()
        return places if self.world == 1 else places[self.is_present(places)]

    def numbers(self, places: I64) -> I64:
        """Return how many steps had ever been stored before each of those at ``places``."""
        return self.oldest + (places - self.tail) % self.capacity

    def places(self, numbers: I64 | None = None) -> I64:
        """Places of the steps with these ``numbers``, or of all that are stored, from the oldest to the newest."""
        behind = np.arange(self.size) if numbers is None else numbers - self.oldest
        return (self.tail + behind) % self.capacity

    def companions(self, places: I64) -> I64:
        """Places of all agents' steps at the moments of ``places``: shape (n,) to (n N,), each world's side by side."""
        if self.world == 1:
            return places
        rows = self.rows(places)
        agent = self.serial[places] % self.world
        ahead = np.arange(self.world) - agent[:, None]
        return ((places[:, None] + ahead * self.length[rows][:, None]) % self.capacity).ravel()

    def is_present(self, places: I64) -> npt.NDArray[np.bool_]:
        """Whether the agents of steps took part in them, shape (n,)."""
        return self.position[places] < self.present[self.rows(places)]

    def rows(self, places: I64) -> I64:
        """Rows of the episode table that the steps at ``places`` belong to."""
        return self.serial[places] % len(self.start)

    def windows(self, places: I64, steps: int, mean: F32, per_std: F32) -> F32:
        """Standardised observations of the ``steps`` steps that end at each of ``places``.

        Returns
        -------
        F32
            Shape (steps, B, S), aligned at the end; zero where the episode had not yet begun.
        """
        out = np.empty((steps, len(places), self.observation.shape[1]), np.float32)
        gather_windows(self.observation, self.position, places, mean, per_std, out)
        return out

    def all_rows(self) -> I64:
        """Rows of all episodes, from the oldest to the newest, shape (episodes,)."""
        return np.arange(self.first_serial, self.next_serial) % len(self.start)

    def truncated_rows(self) -> I64:
        """Rows of the truncated episodes, whose final value is an estimate, and of all others in their worlds."""
        rows = self.all_rows()
        return rows[
            np.repeat(~self.terminated[rows].reshape(-1, self.world).all(axis=1), self.world)
        ]

    def final_windows(self, rows: I64, steps: int, mean: F32, per_std: F32) -> tuple[F32, I64]:
        """Standardised windows that end at the final observations of the episodes in ``rows``.

        Returns
        -------
        windows
            Shape (steps, n, S), aligned at the end.
        lengths
            Observations in each window, shape (n,).
        """
        final = (self.final_observation[rows] - mean) * per_std
        if steps == 1:
            return final[None], np.ones(len(rows), np.int64)
        last = (self.start[rows] + self.length[rows] - 1) % self.capacity
        windows = np.concatenate([self.windows(last, steps - 1, mean, per_std), final[None]])
        return windows, np.minimum(self.length[rows], steps - 1) + 1

    def gather_transitions(
        self, places: I64, window: int, mean: F32, per_std: F32, gamma: float, reward_scale: float
    ) -> tuple[I64, Transitions]:
        """Gather the steps at ``places`` with what followed them; arguments and order as of ``gather``."""
        places, lengths = self._longest_first(places, window)
        rows = self.rows(places)
        following = self.following(places, window + 1, mean, per_std)
        is_terminal = self.terminated[rows] & (self.position[places] + 1 == self.length[rows])
        return places, Transitions(
            windows=self.windows(places, window + 1, mean, per_std),
            lengths=lengths,
            action=self.action[places],
            behaviour_mean=self.behaviour_mean[places],
            behaviour_std=self.behaviour_std[places],
            reward=self.reward[places] * np.float32(1.0 / reward_scale),
            next_windows=following,
            next_lengths=np.minimum(self.position[places] + 1, window) + 1,
            nonterminal=(~is_terminal).astype(np.float32),
            gamma=gamma,
        )

    def gather_ahead(
        self,
        places: I64,
        window: int,
        mean: F32,
        per_std: F32,
        steps: int,
        gamma: float,
        reward_scale: float | None,
    ) -> tuple[I64, Transitions]:
        """Gather the steps at ``places`` with what came m later: ``steps`` of them, or as many as the episode has left.

        Parameters
        ----------
        places, window, mean, per_std
            As of ``gather``.
        steps, gamma
            Most steps on, and the discount of their rewards.
        reward_scale
            What rewards are divided by; with ``None`` they are cut at 1 and -1 instead.

        Returns
        -------
        places, transitions
            As of ``gather_transitions``, with sum_k gamma^k r_{t+k+1} as reward, gamma^(m-1) in ``nonterminal``.
        """
        places, now = self.gather_transitions(places, window, mean, per_std, gamma, 1.0)
        rows = self.rows(places)
        left = self.length[rows] - self.position[places]
        ahead = np.minimum(left, steps)
        reward = np.zeros(len(places), np.float32)
        for k in range(int(ahead.max())):
            each = self.reward[(places + k) % self.capacity]
            each = each.clip(-1.0, 1.0) if reward_scale is None else each / np.float32(reward_scale)
            reward += np.where(k < ahead, np.float32(gamma**k) * each, np.float32(0.0))
        is_terminal = self.terminated[rows] & (ahead == left)
        return places, replace(
            now,
            reward=reward,
            next_windows=self.following(places, window + 1, mean, per_std, ahead),
            next_lengths=np.minimum(self.position[places] + ahead, window) + 1,
            nonterminal=np.where(is_terminal, 0.0, gamma ** (ahead - 1)).astype(np.float32),
        )

    def following(
        self, places: I64, steps: int, mean: F32, per_std: F32, ahead: I64 | None = None
    ) -> F32:
        """Standardised observations of ``steps`` steps that end ``ahead`` (1) after ``places``, shape (steps, B, S)."""
        ahead = np.ones(len(places), np.int64) if ahead is None else ahead
        out = np.empty((steps, len(places), self.observation.shape[1]), np.float32)
        rows = self.rows(places)
        gather_following(
            self.observation,
            self.position,
            places,
            rows,
            self.length,
            self.final_observation,
            mean,
            per_std,
            ahead,
            out,
        )
        return out

    def _longest_first(self, places: I64, window: int) -> tuple[I64, I64]:
        """Order steps by the length of their history; returns the steps and the lengths of their windows."""
        lengths = np.minimum(self.position[places], window) + 1
        if window == 0:
            return places, lengths
        order = np.argsort(-lengths, kind="stable")
        return places[order], lengths[order]

    def gather(
        self, places: I64, window: int, mean: F32, per_std: F32, gamma: float, reward_scale: float
    ) -> tuple[I64, Batch]:
        """Gather what a gradient needs of the steps at ``places``, of all agents of their worlds.

        Parameters
        ----------
        places
            Places of steps of any agent of each world, shape (B,).
        window
            Steps that the network looks back.
        mean, per_std
            Statistics that standardise the states, shape (S,).
        gamma, reward_scale
            Discount and scale of the value target.

        Returns
        -------
        places
            The places of the steps of all agents, in the order of the batch, shape (B N,).
        batch
            The steps, those with the longest history first.
        """
        places, lengths = self._longest_first(self.companions(places), window)
        action, behaviour_mean, behaviour_std, v_tbc, q_ret = gather_steps(
            places,
            self.rows(places),
            self.action,
            self.behaviour_mean,
            self.behaviour_std,
            self.reward,
            self.value,
            self.v_tbc,
            self.position,
            self.length,
            self.final_value,
            np.float32(gamma),
            np.float32(1.0 / reward_scale),
            self._decay,
        )
        return places, Batch(
            windows=self.windows(places, window + 1, mean, per_std),
            lengths=lengths,
            action=action,
            behaviour_mean=behaviour_mean,
            behaviour_std=behaviour_std,
            v_tbc=v_tbc,
            q_ret=q_ret,
            present=None if self.world == 1 else self.is_present(places).astype(np.float32),
        )

    def store(
        self,
        places: I64,
        value: F32,
        rho: F32,
        kl: F32,
        far: npt.NDArray[np.bool_],
        advantage: F32 | None = None,
    ) -> None:
        """Store what the networks now say about drawn steps (arguments of ``refresh``), and leave V_tbc as it is."""
        if self.world > 1:
            far = far & self.is_present(places)
        self.n_far += _store(places, value, rho, kl, far, self.value, self.rho, self.kl, self.far)
        if advantage is not None:
            self.advantage[places] = advantage

    def refresh(
        self,
        places: I64,
        value: F32,
        rho: F32,
        kl: F32,
        far: npt.NDArray[np.bool_],
        gamma: float,
        reward_scale: float,
        advantage: F32 | None = None,
    ) -> None:
        """Store what the network now says about drawn steps, and correct V_tbc there and before.

        Parameters
        ----------
        places
            Places of the drawn steps, shape (B,); of a step drawn twice the last numbers count.
        value, rho, kl, far
            New V(s_t), importance weight, KL and far-policy flag, shape (B,).
        gamma, reward_scale
            Discount and scale of the value target.
        advantage
            New A(s_t, a_t), shape (B,), where it has a closed form.
        """
        self.store(places, value, rho, kl, far, advantage)
        ordered = np.sort(places)
        targets.sweep_drawn(
            ordered,
            self.rows(ordered),
            self.position[ordered],
            self.start,
            self.length,
            self.final_value,
            self.reward,
            self.value,
            self.advantage,
            self.rho,
            self.v_tbc,
            np.float32(gamma),
            np.float32(1.0 / reward_scale),
            self._decay,
        )

    def sweep(self, gamma: float, reward_scale: float) -> None:
        """Recompute V_tbc of every stored step."""
        self._sweep(self.all_rows(), gamma, reward_scale)

    def estimate_advantages(
        self, gamma: float, decay: float, reward_scale: float, *, standardise: bool
    ) -> None:
        """Write A_t of the generalised advantage estimate into ``advantage`` and V + A_t into ``v_tbc`` of every step.

        Parameters
        ----------
        gamma, decay, reward_scale
            Discount factor, lambda, and what rewards are divided by.
        standardise
            Whether A_t gets a mean of 0 and a standard deviation of 1 over all steps.
        """
        targets.lambda_returns(
            self.all_rows(),
            self.start,
            self.length,
            self.final_value,
            self.reward,
            self.value,
            self.v_tbc,
            np.float32(gamma),
            np.float32(1.0 / reward_scale),
            np.float32(decay),
        )
        places = self.places()
        advantage = self.v_tbc[places] - self.value[places]
        if standardise:
            advantage = (advantage - advantage.mean()) / (advantage.std() + 1e-8)
        self.advantage[places] = advantage

    def classify(self, c_max: float) -> None:
        """Set every far-policy flag again from the stored importance weights."""
        places = self.places()
        rho = self.rho[places]
        far = ~is_near_policy(rho, 1.0 / c_max, c_max)
        self.far[places] = far & self.is_present(places)
        self.n_far = int(np.count_nonzero(self.far[places]))

    def state(self) -> tuple[dict[str, npt.NDArray[Any]], dict[str, int]]:
        """Arrays and counters that ``restore`` needs to go on to the bit."""
        places = self.places()
        rows = self.all_rows()
        arrays = {name: getattr(self, name)[places] for name in STEP_FIELDS}
        arrays |= {name: getattr(self, name)[rows] for name in TABLE_FIELDS}
        return arrays, {name: getattr(self, name) for name in COUNTERS} | {"rows": len(self.start)}

    def restore(self, arrays: dict[str, npt.NDArray[Any]], counters: dict[str, int]) -> None:
        """Take over the result of ``state`` of a memory of the same capacity."""
        while len(self.start) < counters["rows"]:
            self._grow_table()
        # checkpoints from before ``steps`` counted experiences have the number of places there
        for name, number in ({"size": counters["steps"]} | counters).items():
            if name in COUNTERS:
                setattr(self, name, number)
        places = self.places()
        rows = self.all_rows()
        for name in STEP_FIELDS:
            getattr(self, name)[places] = arrays[name]
        for name in TABLE_FIELDS:
            # checkpoints from before there were worlds have no ``present``
            getattr(self, name)[rows] = arrays[name] if name in arrays else arrays["length"]
        if "size" not in counters:
            self.steps = int(self.present[rows].sum())
            self.far[places] &= self.is_present(places)
            self.n_far = int(np.count_nonzero(self.far[places]))

    def _sweep(self, rows: I64, gamma: float, reward_scale: float) -> None:
        targets.sweep_all(
            rows,
            self.start,
            self.length,
            self.final_value,
            self.reward,
            self.value,
            self.advantage,
            self.rho,
            self.v_tbc,
            np.float32(gamma),
            np.float32(1.0 / reward_scale),
            self._decay,
        )

    def _grow_table(self) -> None:
        """Double the episode table; every row moves to its serial number modulo the new size."""
        serials = np.arange(self.first_serial, self.next_serial)
        old, new = len(self.start), 2 * len(self.start)
        for name in TABLE_FIELDS:
            array = getattr(self, name)
            larger = np.zeros((new, *array.shape[1:]), array.dtype)
            larger[serials % new] = array[serials % old]
            setattr(self, name, larger)


@compiled()
def _store(
    places: I64,
    value: F32,
    rho: F32,
    kl: F32,
    far: npt.NDArray[np.bool_],
    stored_value: F32,
    stored_rho: F32,
    stored_kl: F32,
    stored_far: npt.NDArray[np.bool_],
) -> int:
    """Write refreshed numbers to their places; returns by how much the number of far-policy steps grew."""
    grown = 0
    for b in range(places.shape[0]):
        k = places[b]
        stored_value[k] = value[b]
        stored_rho[k] = rho[b]
        stored_kl[k] = kl[b]
        grown += int(far[b]) - int(stored_far[k])
        stored_far[k] = far[b]
    return grown
