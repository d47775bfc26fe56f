"""What a declaration says and a row does not store."""

from airflow_provider_rmq.watcher.service.declared_extras import DeclaredExtras
from airflow_provider_rmq.watcher.subscription import Declaration, ExchangeBinding, Subscription, SubscriptionKey

KEY = SubscriptionKey("d", "q", "c")
EXCHANGE = ExchangeBinding(name="e", routing_keys=("a",))


def row(cooldown=60):
    return Subscription(id=1, key=KEY, cooldown=cooldown)


def test_exchanges_are_those_of_the_last_trusted_listing():
    extras = DeclaredExtras()
    extras.learn([Declaration(key=KEY, exchange=EXCHANGE)])
    assert extras.exchanges == {KEY: EXCHANGE}

    extras.learn([])

    assert extras.exchanges == {}


def test_keep_payload_reaches_the_row_and_outlives_a_listing_without_it():
    extras = DeclaredExtras()
    extras.learn([Declaration(key=KEY, cooldown=60, keep_payload=True)])
    extras.learn([])

    assert [item.keep_payload for item in extras.applied([row()])] == [True]


def test_a_declaration_that_drops_keep_payload_takes_it_from_the_row():
    extras = DeclaredExtras()
    extras.learn([Declaration(key=KEY, cooldown=60, keep_payload=True)])
    extras.learn([Declaration(key=KEY, cooldown=60)])

    assert [item.keep_payload for item in extras.applied([row()])] == [False]


def test_a_row_without_cooldown_keeps_nothing():
    extras = DeclaredExtras()
    extras.learn([Declaration(key=KEY, cooldown=60, keep_payload=True)])

    assert [item.keep_payload for item in extras.applied([row(cooldown=0)])] == [False]
