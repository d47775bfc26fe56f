"""Every spelling of a vhost leads hook, trigger and management client to the same one (B37, R25)."""

import asyncio
from urllib.parse import urlsplit

import httpx
import pytest

from airflow_provider_rmq.errors import ManagementUnavailable
from airflow_provider_rmq.hooks.rmq import RMQHook
from airflow_provider_rmq.triggers.rmq import RMQTrigger
from airflow_provider_rmq.utils.management import get_current_bindings, get_management_url, get_queue_consumers
from integration.lab.waiting import wait_until
from integration.vhost import Vhost

QUEUE = "rmqtest.here"
NAMES = ("/", "a/b", "%2f", "ü", "a b", "//")


@pytest.fixture(scope="module")
def vhosts(fault_lab):
    """A queue of the same name in each vhost, bound with the vhost's own name as routing key."""
    made = {}
    for name in NAMES:
        if name != "/":
            fault_lab.management().create_vhost(name)
        made[name] = Vhost(fault_lab.amqp_url(vhost=name))
        made[name].declare(QUEUE)
        with made[name].channel() as channel:
            channel.queue_bind(QUEUE, "amq.direct", routing_key=name)
    return made


@pytest.fixture
def connect(fault_lab, airflow_connection):
    parts = urlsplit(fault_lab.amqp_url())

    def make(schema):
        extra = {"management_url": f"{fault_lab.management_url()}/"}
        return airflow_connection(
            "vhosts", host="127.0.0.1", port=parts.port, login="guest", password="guest", schema=schema, extra=extra
        )

    return make


async def first_event(conn_id):
    running = RMQTrigger(conn_id, QUEUE, mode="push").run()
    try:
        return (await asyncio.wait_for(anext(running), 10)).payload
    finally:
        await running.aclose()


async def bindings_and_consumers(conn_id, vhost):
    conn = RMQHook.get_connection(conn_id)
    url, auth = get_management_url(conn), (conn.login, conn.password)
    async with httpx.AsyncClient(trust_env=False) as client:
        found = await get_current_bindings(client, url, vhost, QUEUE, "amq.direct", auth)
        return found, await get_queue_consumers(client, url, vhost, auth)


@pytest.mark.parametrize(
    ("schema", "name"),
    [
        ("/", "/"),
        ("", "/"),
        (None, "/"),
        ("%2F", "/"),
        ("%2f", "/"),
        ("a/b", "a/b"),
        ("a%2Fb", "a/b"),
        ("%252f", "%2f"),
        ("ü", "ü"),
        ("a b", "a b"),
        ("//", "//"),
    ],
)
def test_hook_trigger_and_management_client_address_the_same_vhost(vhosts, connect, schema, name):
    conn_id = connect(schema)
    with RMQHook(conn_id) as hook:
        assert hook.test_connection()[0] is True
        hook.basic_publish("amq.direct", name, f"for {name}")

    assert vhosts[name].depth(QUEUE) == 1
    event = asyncio.run(first_event(conn_id))
    assert event["message"]["body"] == f"for {name}"
    assert asyncio.run(bindings_and_consumers(conn_id, name)) == ({name}, {})


def test_consumers_are_listed_by_queue(vhosts, connect):
    conn_id = connect("a/b")
    with vhosts["a/b"].channel() as channel:
        tag = channel.basic_consume(QUEUE, lambda *_: None)

        wait_until(
            lambda: asyncio.run(bindings_and_consumers(conn_id, "a/b"))[1] == {QUEUE: {tag}}, 15, "the consumer's row"
        )


def test_an_unusable_answer_of_the_management_api_is_an_error_without_login(vhosts, connect, caplog):
    conn = RMQHook.get_connection(connect("/"))
    good = get_management_url(conn).replace("http://", "http://guest:secret@")

    async def ask(url, auth):
        async with httpx.AsyncClient(trust_env=False) as client:
            await get_current_bindings(client, url, "/", QUEUE, "amq.direct", auth)

    for url, auth, words in (
        (f"{good}/nowhere", ("guest", "guest"), "HTTP 40"),
        (good, ("guest", "wrong"), "HTTP 401"),
        ("http://127.0.0.1:1", ("guest", "wrong"), "ConnectError"),
    ):
        with pytest.raises(ManagementUnavailable, match=words) as caught:
            asyncio.run(ask(url, auth))
        assert not {"secret", "wrong"} & set(str(caught.value).replace(":", " ").replace("@", " ").split())
    assert "secret" not in caplog.text
