"""Every fault of the proxy, against an echo server on the loopback."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading

import pytest

from integration.lab.fault_proxy import CHUNK, FaultProxy, ProxyThread, send
from integration.lab.waiting import wait_until

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


class Bench:
    """A proxy in front of an echo server, with its control port."""

    def __init__(self, proxy: FaultProxy, control: int) -> None:
        self.proxy = proxy
        self._control = control
        self._streams: list[Stream] = []

    async def order(self, line: str) -> str:
        return await asyncio.to_thread(send, self._control, line)

    async def connect(self) -> Stream:
        stream = await asyncio.open_connection("127.0.0.1", self.proxy.port)
        self._streams.append(stream)
        return stream

    def close(self) -> None:
        for _, writer in self._streams:
            writer.close()


async def ask(stream: Stream, text: bytes, seconds: float = 0.5) -> bytes | None:
    """Send and read back; None when nothing comes in time, b"" when the link ended."""
    stream[1].write(text)
    try:
        return await asyncio.wait_for(stream[0].read(100), seconds)
    except asyncio.TimeoutError:
        return None
    except ConnectionResetError:
        return b""


async def echo(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while chunk := await reader.read(CHUNK):
            writer.write(chunk)
            await writer.drain()
    writer.close()


@pytest.fixture
async def bench():
    server = await asyncio.start_server(echo, "127.0.0.1", 0)
    proxy = await FaultProxy(server.sockets[0].getsockname()[:2]).start()
    control, _ = await proxy.control(0)
    bench = Bench(proxy, control.sockets[0].getsockname()[1])
    yield bench
    bench.close()
    control.close()
    await proxy.stop()
    server.close()


async def test_a_black_hole_holds_bytes_both_ways_and_normal_releases_them(bench):
    link = await bench.connect()
    assert await ask(link, b"a") == b"a"

    await bench.order("blackhole")

    assert await ask(link, b"b") is None
    assert not link[0].at_eof()
    newcomer = await bench.connect()
    assert await ask(newcomer, b"c") is None

    await bench.order("normal")

    assert await asyncio.wait_for(link[0].read(100), 1) == b"b"
    assert await asyncio.wait_for(newcomer[0].read(100), 1) == b"c"


async def test_a_black_hole_down_still_passes_bytes_up(bench):
    link = await bench.connect()
    await ask(link, b"a")

    await bench.order("blackhole down")

    assert await ask(link, b"bcd") is None
    assert bench.proxy.bytes["up"] == 4


async def test_refuse_closes_new_connections_and_leaves_live_ones(bench):
    live = await bench.connect()
    assert await ask(live, b"a") == b"a"

    await bench.order("refuse")

    assert await ask(await bench.connect(), b"x") == b""
    assert await ask(live, b"b") == b"b"


async def test_drop_accepts_and_says_nothing(bench):
    await bench.order("drop")

    assert await ask(await bench.connect(), b"x") is None


async def test_latency_delays_each_way(bench):
    link = await bench.connect()
    await bench.order("latency 200")
    clock = asyncio.get_running_loop().time
    begun = clock()

    assert await ask(link, b"a", 2) == b"a"
    assert clock() - begun >= 0.39


async def test_throttle_slows_down(bench):
    link = await bench.connect()
    await bench.order("throttle 1000")
    clock = asyncio.get_running_loop().time
    begun, got = clock(), 0

    link[1].write(b"g" * 600)
    while got < 600:
        got += len(await link[0].read(1000))

    assert clock() - begun >= 0.5


async def test_half_close_ends_one_side_and_keeps_the_other(bench):
    link = await bench.connect()
    await ask(link, b"a")

    await bench.order("half-close down")

    assert await ask(link, b"b") == b""
    link[1].write(b"cc")
    await asyncio.to_thread(wait_until, lambda: bench.proxy.bytes["up"] == len("abcc"), 2, "all bytes to go up")


async def test_reset_ends_links_with_rst_even_in_a_black_hole(bench):
    link = await bench.connect()
    await ask(link, b"a")
    await bench.order("blackhole")

    await bench.order("reset")

    with pytest.raises(ConnectionResetError):
        await asyncio.wait_for(link[0].read(1), 1)
    assert not bench.proxy.links


async def test_cut_after_resets_once_the_bytes_went_down(bench):
    await bench.order("cut-after 3")
    link = await bench.connect()

    assert await ask(link, b"jk") == b"jk"
    assert await ask(link, b"l", 1) == b""


async def test_close_ends_links_with_fin(bench):
    link = await bench.connect()
    await ask(link, b"m")

    await bench.order("close")

    assert await asyncio.wait_for(link[0].read(1), 1) == b""


async def test_unknown_orders_are_refused_and_status_answers(bench):
    assert (await bench.order("nonsense")).startswith("error")
    assert (await bench.order("blackhole sideways")).startswith("error")
    assert json.loads(await bench.order("status"))["accepted"] == bench.proxy.accepted


def test_a_proxy_thread_serves_callers_without_an_event_loop():
    def greet(upstream: socket.socket) -> None:
        with upstream.accept()[0] as client:
            client.sendall(b"hello")

    with socket.create_server(("127.0.0.1", 0)) as upstream:
        greeter = threading.Thread(target=greet, args=[upstream])
        greeter.start()
        with (
            ProxyThread(upstream.getsockname()) as proxy,
            socket.create_connection(("127.0.0.1", proxy.port), 5) as client,
        ):
            assert client.recv(5) == b"hello"
            assert json.loads(proxy.order("status"))["accepted"] == 1
        greeter.join()
