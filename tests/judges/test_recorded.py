"""What was recorded with the data is told apart from what was not."""

import pytest

from adaptermill.judges.episode_success import EpisodeSuccess
from adaptermill.judges.recorded import Recorded
from tests.judges.building import example


@pytest.mark.parametrize(
    ("recorded", "reward", "verdict"),
    [
        ({"reward": 0.25}, 0.25, "recorded"),
        ({"reward": 0.0, "success": True}, 0.0, "recorded"),
        ({"success": True}, 1.0, "success"),
        ({"success": False}, 0.0, "failure"),
        ({}, None, "not_recorded"),
        ({"reward": 1.5}, None, "out_of_range"),
        ({"reward": float("nan")}, None, "out_of_range"),
    ],
)
def test_recorded_takes_the_reward_before_the_success(recorded, reward, verdict):
    said = Recorded(0, 1).verdict(example(**recorded))
    assert (said.reward, said.verdict) == (reward, verdict)


def test_recorded_rewards_of_another_range_are_mapped_to_0_and_1():
    judge = Recorded(-1, 1)
    rewards = [judge.verdict(example(reward=reward)).reward for reward in (-1, 0, 1)]
    assert rewards == [0, 0.5, 1]


def test_only_episodes_that_failed_are_rejected_unless_all_must_record_it():
    said = {
        success: EpisodeSuccess("keep").verdict(example(success=success)).reward
        for success in (True, False, None)
    }
    assert said == {True: 1.0, False: 0.0, None: 1.0}
    assert EpisodeSuccess("drop").verdict(example()).reward == 0.0
