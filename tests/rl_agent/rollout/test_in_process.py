"""The memory holds what happened, for every kind of episode end."""

import gymnasium
import numpy as np
import pytest

from rl_agent import AgentConfig, Learner, train_serial
from rl_agent.normalization.actions import task_actions
from rl_agent.rollout.in_process import SerialRun

SAME_STEP = gymnasium.vector.AutoresetMode.SAME_STEP


class Diary(gymnasium.Env):
    """Observations are (episode, step); episodes of 3 to 6 steps end in each possible way in turn."""

    observation_space = gymnasium.spaces.Box(-np.inf, np.inf, (2,), np.float32)
    action_space = gymnasium.spaces.Box(np.float32(-1.0), np.float32(3.0), (1,), np.float32)
    ENDS = ((True, False), (False, True), (True, True))

    def __init__(self, first=0):
        self.episode = first - 1
        self.took = []

    def reset(self, *, seed=None, options=None):
        super().reset(seed=seed)
        self.episode, self.at = self.episode + 1, 0
        return np.array([self.episode, 0], np.float32), {}

    def step(self, action):
        assert self.action_space.contains(action)
        self.took.append((self.episode, self.at, float(action[0])))
        self.at += 1
        is_over = self.at == 3 + self.episode % 4
        terminated, truncated = self.ENDS[self.episode % 3] if is_over else (False, False)
        return (
            np.array([self.episode, self.at], np.float32),
            10.0 * self.episode + self.at,
            terminated,
            truncated,
            {},
        )


@pytest.mark.parametrize("algorithm", ["vracer", "ppo", "sac"])
def test_every_episode_is_stored_whole_with_its_end(algorithm):
    settings = (
        {"horizon": 90, "batch_size": 8}
        if algorithm == "ppo"
        else {"buffer_size": 300, "learning_starts": 90}
    )
    config = AgentConfig(algorithm=algorithm, hidden=(4,), **settings)
    learner = Learner(config, Diary.observation_space, Diary.action_space, agents=2, seed=0)
    diaries = [Diary(0), Diary(1000)]
    vector = gymnasium.vector.SyncVectorEnv(
        [lambda d=d: d for d in diaries], autoreset_mode=SAME_STEP
    )

    def enough():
        raise StopIteration

    learner.update = enough
    with pytest.raises(StopIteration):
        SerialRun(learner, vector, 0).run(1000)
    memory, episodes = learner.memory, set()
    for episode_id in range(memory.storage.first_id, memory.storage.next_id):
        row = episode_id % len(memory.storage.start)
        indices = (
            memory.storage.start[row] + np.arange(memory.storage.length[row])
        ) % memory.storage.capacity
        (episode,) = set(memory.storage.observation[indices, 0])
        first = memory.storage.observation[indices[0], 1]
        np.testing.assert_array_equal(
            memory.storage.observation[indices, 1], first + np.arange(len(indices))
        )
        np.testing.assert_array_equal(
            memory.storage.reward[indices],
            10.0 * episode + memory.storage.observation[indices, 1] + 1,
        )
        np.testing.assert_array_equal(
            memory.storage.final_observation[row], [episode, first + len(indices)]
        )
        is_whole = first + len(indices) == 3 + episode % 4
        assert bool(memory.storage.terminated[row]) == bool(
            is_whole and Diary.ENDS[int(episode) % 3][0]
        )
        assert is_whole or algorithm == "ppo"
        if memory.storage.terminated[row]:
            assert memory.values.final_value[row] == 0.0
        episodes.add(episode)
    assert len(episodes) > 15
    ended = {record.terminated for record in learner.finished_episodes()}
    assert ended == {True, False}


def test_other_autoreset_modes_are_refused():
    learner = Learner(AgentConfig(), Diary.observation_space, Diary.action_space, agents=1, seed=0)
    vector = gymnasium.vector.SyncVectorEnv([Diary])
    with pytest.raises(
        ValueError, match=r"NEXT_STEP.*make them with autoreset_mode = AutoresetMode.SAME_STEP"
    ):
        train_serial(learner, vector, 10)


class Levels(Diary):
    """A task whose actions are whole numbers."""

    action_space = gymnasium.spaces.Box(0, 5, (1,), np.int64)


def test_whole_actions_are_rounded_to_the_nearest():
    learner = Learner(
        AgentConfig(), Levels.observation_space, Levels.action_space, agents=1, seed=0
    )
    diary = Levels()
    sampled = np.array([[-0.7], [0.4], [0.6], [2.5001], [4.9], [7.0]], np.float32)
    wholes = task_actions(sampled, Levels.action_space)
    assert wholes.dtype == np.int64
    assert wholes[:, 0].tolist() == [0, 0, 1, 3, 5, 5]
    train_serial(learner, diary, 10, seed=np.int64(3))
    assert len(diary.took) == 10
