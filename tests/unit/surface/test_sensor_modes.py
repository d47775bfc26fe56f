"""`mode` stands for the base sensor's modes and for how a deferred sensor waits; anything else is an error."""

import pytest

from airflow_provider_rmq.sensors.rmq import RMQSensor


def sensor(**given):
    return RMQSensor(task_id="t", queue_name="q", **given)


@pytest.mark.parametrize(
    ("given", "base", "trigger"),
    [
        ({}, "poke", "pull"),
        ({"mode": "pull"}, "poke", "pull"),
        ({"mode": "push"}, "poke", "push"),
        ({"mode": "poke"}, "poke", "pull"),
        ({"mode": "reschedule"}, "reschedule", "pull"),
    ],
)
def test_each_mode_goes_where_it_belongs(given, base, trigger):
    made = sensor(**given)

    assert (made.mode, made.trigger_mode, made.reschedule) == (base, trigger, base == "reschedule")


@pytest.mark.parametrize("mode", ["pul", "", None, "PUSH", 5, []])
def test_another_mode_is_refused_with_those_allowed(mode):
    with pytest.raises(ValueError, match=r"pull or push.*poke or reschedule"):
        sensor(mode=mode)


@pytest.mark.parametrize("mode", ["pull", "poke", "reschedule"])
def test_a_wait_timeout_is_for_push_mode(mode):
    with pytest.raises(ValueError, match="push mode"):
        sensor(mode=mode, message_wait_timeout=5)
    assert sensor(mode="push", message_wait_timeout="{{ 5 }}").message_wait_timeout == "{{ 5 }}"


def test_a_batch_has_at_least_one_message():
    with pytest.raises(ValueError, match="poke_batch_size"):
        sensor(poke_batch_size=0)
