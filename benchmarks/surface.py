"""Rates of hook and operator against bare client loops, in one run on one broker; prints ratios.

    RMQ_TEST_URL=amqp://user:password@host:5672/rmqtest python benchmarks/surface.py [--messages 10000]

The vhost must be one made for tests. Ratios travel from machine to machine, rates do not.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import logging
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Iterator
from urllib.parse import unquote, urlsplit

import aio_pika
import pika

os.environ.setdefault("AIRFLOW_HOME", tempfile.mkdtemp(prefix="airflow-benchmark-"))
os.environ.setdefault("AIRFLOW__METRICS__TIMER_UNIT_CONSISTENCY", "True")

QUEUE = "rmqtest.benchmark"
PREFETCH = 100
LATENCY_MESSAGES = 50


def main() -> None:
    """Run every comparison."""
    parser = argparse.ArgumentParser()
    parser.add_argument("--messages", type=int, default=10_000)
    messages = parser.parse_args().messages
    url = os.environ["RMQ_TEST_URL"]
    vhost = unquote(urlsplit(url).path.removeprefix("/"))
    if vhost in {"", "/"}:
        raise SystemExit("RMQ_TEST_URL must name a vhost made for tests")
    set_connection(url, vhost)
    logging.disable(logging.WARNING)
    for queue_type in ("classic", "quorum"):
        with queue(url, queue_type):
            publish(url, queue_type, messages)
            consume(url, queue_type, messages)
    with queue(url, "classic"):
        asyncio.run(latency(url))


def set_connection(url: str, vhost: str) -> None:
    """Let the hook find the broker."""
    parts = urlsplit(url)
    connection = {
        "conn_type": "amqp",
        "host": parts.hostname,
        "port": parts.port,
        "login": unquote(parts.username or "guest"),
        "password": unquote(parts.password or "guest"),
        "schema": vhost,
    }
    os.environ["AIRFLOW_CONN_RMQ_DEFAULT"] = json.dumps(connection)


@contextlib.contextmanager
def queue(url: str, queue_type: str) -> Iterator[None]:
    """A durable queue for one comparison."""
    with channel(url) as made:
        made.queue_delete(QUEUE)
        made.queue_declare(QUEUE, durable=True, arguments={"x-queue-type": queue_type})
        yield
        made.queue_delete(QUEUE)


@contextlib.contextmanager
def channel(url: str) -> Iterator[pika.adapters.blocking_connection.BlockingChannel]:
    """A bare pika channel."""
    connection = pika.BlockingConnection(pika.URLParameters(url))
    yield connection.channel()
    connection.close()


def rate(count: int, work: Callable[[], object]) -> float:
    """Messages a second."""
    started = time.perf_counter()
    work()
    return count / (time.perf_counter() - started)


def report(what: str, ours: float, bare: float, unit: str = "/s") -> None:
    """One line."""
    print(f"{what:<58} {ours:>10.1f}{unit}  bare {bare:>10.1f}{unit}  ratio {ours / bare:6.2f}")


def publish(url: str, queue_type: str, count: int) -> None:
    """A batch with confirms against a loop that confirms one by one, and one without confirms."""
    from airflow_provider_rmq.hooks.rmq import RMQHook

    properties = pika.BasicProperties(delivery_mode=2)
    bodies = [json.dumps({"n": number}) for number in range(count)]
    one_by_one = bodies[: count // 5]

    def bare(*, confirm: bool, sent: list[str]) -> None:
        with channel(url) as made:
            if confirm:
                made.confirm_delivery()
            for body in sent:
                made.basic_publish("", QUEUE, body.encode(), properties, mandatory=True)

    confirmed = rate(len(one_by_one), lambda: bare(confirm=True, sent=one_by_one))
    unconfirmed = rate(count, lambda: bare(confirm=False, sent=bodies))
    with RMQHook() as hook:
        hook.get_channel()
        ours = rate(count, lambda: hook.publish_messages("", QUEUE, bodies, properties))
        hook.queue_purge(QUEUE)
    report(f"publish, {queue_type}: batch against confirms one by one", ours, confirmed)
    report(f"publish, {queue_type}: batch against no confirms at all", ours, unconfirmed)


def consume(url: str, queue_type: str, count: int) -> None:
    """A filtered batch against a loop that acknowledges each message, with the same prefetch."""
    from airflow_provider_rmq.hooks.rmq import RMQHook
    from airflow_provider_rmq.operators.rmq_consume import RMQConsumeOperator

    bodies = [json.dumps({"n": number, "kind": "order"}) for number in range(count)]

    def fill() -> None:
        with RMQHook() as hook:
            hook.publish_messages("", QUEUE, bodies, pika.BasicProperties(delivery_mode=2))

    def bare() -> None:
        with channel(url) as made:
            made.basic_qos(prefetch_count=PREFETCH)
            for number, (method, _, _) in enumerate(made.consume(QUEUE), start=1):
                made.basic_ack(method.delivery_tag)
                if number == count:
                    break
            made.cancel()

    fill()
    bare_rate = rate(count, bare)
    with RMQHook() as hook:
        hook.queue_purge(QUEUE)
    fill()
    operator = RMQConsumeOperator(
        task_id="benchmark",
        queue_name=QUEUE,
        filter_headers={"body.kind": "order"},
        max_messages=count,
        qos={"prefetch_count": PREFETCH},
    )
    report(f"consume, {queue_type}: filtered batch", rate(count, lambda: operator.execute({})), bare_rate)


async def latency(url: str) -> None:
    """From publishing to the trigger's event, against a bare aio-pika consumer."""
    from airflow_provider_rmq.triggers.rmq import RMQTrigger

    connection = await aio_pika.connect(url)
    publisher = await connection.channel()

    async def send() -> None:
        await publisher.default_exchange.publish(aio_pika.Message(b"x"), QUEUE)

    ours, bare = [], []
    for _ in range(LATENCY_MESSAGES):
        running = RMQTrigger("rmq_default", QUEUE, mode="push").run()
        event = asyncio.ensure_future(anext(running))
        await asyncio.sleep(0.1)
        started = time.perf_counter()
        await send()
        await event
        ours.append(time.perf_counter() - started)
        await running.aclose()
    consuming = await connection.channel()
    async with (await consuming.get_queue(QUEUE)).iterator() as deliveries:
        for _ in range(LATENCY_MESSAGES):
            started = time.perf_counter()
            await send()
            incoming = await anext(deliveries)
            bare.append(time.perf_counter() - started)
            await incoming.ack()
    await connection.close()
    report(
        "push: median time from publish to event", statistics.median(ours) * 1e3, statistics.median(bare) * 1e3, "ms"
    )


if __name__ == "__main__":
    main()
