"""What is desired against what runs."""

from dataclasses import replace

from airflow_provider_rmq.watcher.service.reconcile import plan_reconcile
from airflow_provider_rmq.watcher.subscription import FireConsumer, Subscription, SubscriptionKey


def subscription(number, queue="q"):
    return Subscription(id=number, key=SubscriptionKey(f"dag{number}", queue, "rmq_default"))


A, B = subscription(1), subscription(2)


def test_a_new_subscription_is_started_and_a_running_one_is_left_alone():
    plan = plan_reconcile([A, B], {A.consumer_key: A})

    assert plan.start == (B,)
    assert plan.stop == plan.ended == ()


def test_what_is_no_longer_desired_is_stopped():
    plan = plan_reconcile([], {A.consumer_key: A})

    assert plan.stop == (A.consumer_key,)
    assert plan.start == ()


def test_a_consumer_that_has_ended_is_started_again():
    plan = plan_reconcile([A], {A.consumer_key: None})

    assert plan.start == (A,)
    assert plan.ended == (A.consumer_key,)
    assert plan.stop == ()


def test_a_changed_filter_restarts_the_consumer():
    changed = replace(A, filter_data={"filter_headers": {"kind": "order"}})

    plan = plan_reconcile([changed], {A.consumer_key: A})

    assert (plan.stop, plan.start) == ((A.consumer_key,), (changed,))


def test_the_fire_consumer_moves_with_the_cooldown_connection():
    before, after = FireConsumer("c1", "rmq_watcher.fire"), FireConsumer("c2", "rmq_watcher.fire")

    plan = plan_reconcile([after], {before.consumer_key: before})

    assert (plan.stop, plan.start) == ((before.consumer_key,), (after,))


def test_another_queue_is_another_consumer():
    moved = subscription(1, queue="other")

    plan = plan_reconcile([moved], {A.consumer_key: A})

    assert plan.stop == (A.consumer_key,)
    assert plan.start == (moved,)


def test_a_changed_cooldown_restarts_the_consumer_so_that_the_next_window_has_it():
    changed = replace(A, cooldown=60)

    plan = plan_reconcile([changed], {A.consumer_key: A})

    assert (plan.stop, plan.start) == ((A.consumer_key,), (changed,))
