"""A TCP proxy that breaks links on request, between a client and a broker. `python -m integration.lab.fault_proxy`

As a library, on an event loop: `proxy = await FaultProxy(("127.0.0.1", 5700)).start(); proxy.blackhole()`; in a
thread of its own, for tests without a loop: `with ProxyThread(("127.0.0.1", 5700)) as proxy: proxy.order("reset")`.
As a program it takes the same orders, one a line, on a control port of the loopback:

    normal                 forward everything (also undoes every fault below)
    refuse                 close new connections at once; live ones go on
    drop                   accept new connections, never answer, never connect upstream
    blackhole [up|down]    stop forwarding, both ways or one, and keep every socket open
    reset                  end live connections with a TCP RST
    close                  end live connections with a FIN both ways
    half-close [up|down]   send FIN on one side only and keep the other open
    latency MS [JITTER]    delay every chunk
    throttle BYTES         limit each direction of a connection to BYTES a second; 0 lifts it
    cut-after BYTES        reset a connection once BYTES went down to the client; 0 lifts it
    upstream HOST:PORT     forward new connections elsewhere
    status                 JSON: mode, live connections, counters
    quit                   end the proxy

"up" is client to upstream, "down" is upstream to client. `reset`, `close` and `half-close` act once, on the
connections alive at that moment; the other faults apply to live and new ones alike. `normal` releases what a
black hole held back: TCP kept it in order, nothing is lost.
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import random
import signal
import socket
import struct
import sys
import threading
from dataclasses import dataclass, field

CHUNK = 16384
DIRECTIONS = ("up", "down")


@dataclass(eq=False)
class Link:
    """One client connection and its upstream counterpart."""

    client_reader: asyncio.StreamReader
    client_writer: asyncio.StreamWriter
    upstream_reader: asyncio.StreamReader | None = None
    upstream_writer: asyncio.StreamWriter | None = None
    sent_down: int = 0
    ended: set[str] = field(default_factory=set)  # directions a half-close has ended
    tasks: list[asyncio.Task[None]] = field(default_factory=list)

    def writers(self) -> list[asyncio.StreamWriter]:
        """Both ends, as far as they exist."""
        return [writer for writer in (self.client_writer, self.upstream_writer) if writer is not None]

    def reset(self) -> None:
        """End both ends with RST."""
        for writer in self.writers():
            sock = writer.get_extra_info("socket")
            with contextlib.suppress(OSError):  # linger 0 turns close() into RST
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()
        self._cancel()

    def close(self) -> None:
        """End both ends with FIN."""
        for writer in self.writers():
            writer.close()
        self._cancel()

    def _cancel(self) -> None:
        for task in self.tasks:  # one may be waiting in a black hole
            task.cancel()


class FaultProxy:
    """The proxy itself; its methods are the orders above."""

    def __init__(self, upstream: tuple[str, int], host: str = "127.0.0.1", port: int = 0) -> None:
        self.upstream = upstream
        self.host, self.port = host, port
        self.links: set[Link] = set()
        self.accepted = 0
        self.bytes = dict.fromkeys(DIRECTIONS, 0)
        self.accepting = "forward"
        self.latency = self.jitter = 0.0
        self.rate = self.cut_after = 0
        self._server: asyncio.AbstractServer | None = None
        self._serving: set[asyncio.Task[None]] = set()
        self._open = {way: asyncio.Event() for way in DIRECTIONS}
        self.normal()

    # -- life cycle

    async def start(self) -> FaultProxy:
        """Listen, on a free port unless one was given."""
        server = await asyncio.start_server(self._serve, self.host, self.port)
        self._server = server
        self.port = server.sockets[0].getsockname()[1]
        return self

    async def stop(self) -> None:
        """Stop listening and reset every link."""
        if self._server:
            self._server.close()
        self.reset()
        await asyncio.gather(*self._serving, return_exceptions=True)

    # -- faults

    def normal(self) -> None:
        """Forward everything."""
        self.accepting = "forward"
        self.latency = self.jitter = 0.0
        self.rate = self.cut_after = 0
        for event in self._open.values():
            event.set()

    def refuse(self) -> None:
        """Close new connections at once."""
        self.accepting = "refuse"

    def drop(self) -> None:
        """Accept new connections and say nothing."""
        self.accepting = "drop"

    def blackhole(self, way: str = "both") -> None:
        """Stop forwarding and keep every socket open."""
        for name in DIRECTIONS if way == "both" else (way,):
            self._open[name].clear()

    def reset(self) -> None:
        """End live connections with RST."""
        for link in list(self.links):
            link.reset()

    def close(self) -> None:
        """End live connections with FIN."""
        for link in list(self.links):
            link.close()

    def half_close(self, way: str = "down") -> None:
        """Send FIN on one side of live connections."""
        for link in list(self.links):
            writer = link.client_writer if way == "down" else link.upstream_writer
            if writer is not None and way not in link.ended:
                link.ended.add(way)
                with contextlib.suppress(OSError):
                    writer.write_eof()

    def status(self) -> dict[str, object]:
        """Say what the proxy does and has done."""
        return {
            "listen": f"{self.host}:{self.port}",
            "upstream": ":".join(map(str, self.upstream)),
            "accepting": self.accepting,
            "blackhole": [way for way, event in self._open.items() if not event.is_set()],
            "latency_ms": round(self.latency * 1000),
            "throttle": self.rate,
            "cut_after": self.cut_after,
            "links": len(self.links),
            "accepted": self.accepted,
            "bytes": dict(self.bytes),
        }

    # -- forwarding

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.accepted += 1
        task = asyncio.current_task()
        if task:
            self._serving.add(task)
            task.add_done_callback(self._serving.discard)
        if self.accepting == "refuse":
            writer.close()
            return
        link = Link(reader, writer)
        self.links.add(link)
        try:
            if self.accepting == "drop":
                await writer.wait_closed()  # until reset, close or stop
                return
            upstream_reader, upstream_writer = await asyncio.open_connection(*self.upstream)
            link.upstream_reader, link.upstream_writer = upstream_reader, upstream_writer
            link.tasks = [
                asyncio.create_task(self._pump(link, reader, upstream_writer, "up")),
                asyncio.create_task(self._pump(link, upstream_reader, writer, "down")),
            ]
            await asyncio.gather(*link.tasks, return_exceptions=True)
        except (OSError, asyncio.CancelledError):
            link.reset()
        finally:
            link.close()
            self.links.discard(link)

    async def _pump(self, link: Link, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, way: str) -> None:
        try:
            while True:
                await self._open[way].wait()  # unread bytes fill the kernel's window, as on a dead path
                chunk = await reader.read(min(CHUNK, self.rate or CHUNK))
                await self._open[way].wait()  # a black hole may have opened while reading
                if self.latency or self.jitter:
                    await asyncio.sleep(self.latency + random.uniform(0, self.jitter))
                if not chunk:
                    break
                if self.rate:
                    await asyncio.sleep(len(chunk) / self.rate)
                if way == "down":
                    link.sent_down += len(chunk)
                    if self.cut_after and link.sent_down >= self.cut_after:
                        link.reset()
                        return
                self.bytes[way] += len(chunk)
                if way not in link.ended:
                    writer.write(chunk)
                    await writer.drain()
            if way not in link.ended:
                writer.write_eof()
        except OSError:
            link.reset()

    # -- orders as text

    def order(self, line: str) -> str:
        """Carry out one order and return the reply.

        Raises:
            ValueError: no such order.
        """
        word, *args = line.split() or [""]
        simple = {name: getattr(self, name) for name in ("normal", "refuse", "drop", "reset", "close")}
        way = args[0] if args else None
        if word in ("blackhole", "half-close") and way not in (None, "both", *DIRECTIONS):
            raise ValueError(f"unknown direction {way}")
        if word in simple and not args:
            simple[word]()
        elif word == "blackhole":
            self.blackhole(way or "both")
        elif word == "half-close":
            self.half_close(way or "down")
        elif word == "latency" and args:
            self.latency = float(args[0]) / 1000
            self.jitter = float(args[1]) / 1000 if len(args) > 1 else 0.0
        elif word == "throttle" and args:
            self.rate = int(args[0])
        elif word == "cut-after" and args:
            self.cut_after = int(args[0])
        elif word == "upstream" and args:
            self.upstream = address(args[0])
        elif word == "status":
            return json.dumps(self.status())
        else:
            raise ValueError(f"unknown order: {line.strip()}")
        return "ok"

    async def control(self, port: int) -> tuple[asyncio.Server, asyncio.Event]:
        """Take orders on a loopback port; the event is set by `quit`."""
        ended = asyncio.Event()

        async def serve(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            while line := await reader.readline():
                text = line.decode(errors="replace").strip()
                reply = "ok"
                if text == "quit":
                    ended.set()
                else:
                    try:
                        reply = self.order(text)
                    except ValueError as error:
                        reply = f"error: {error}"
                writer.write(reply.encode() + b"\n")
                await writer.drain()
            writer.close()

        return await asyncio.start_server(serve, "127.0.0.1", port), ended


class ProxyThread:
    """A proxy on an event loop in a thread of its own, for callers without one."""

    def __init__(self, upstream: tuple[str, int], host: str = "127.0.0.1") -> None:
        self._upstream = upstream
        self._host = host
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="fault proxy", daemon=True)
        self._proxy: FaultProxy | None = None

    def __enter__(self) -> ProxyThread:
        self._thread.start()
        self._proxy = asyncio.run_coroutine_threadsafe(self._start(), self._loop).result(10)
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self.proxy.stop(), self._loop).result(10)
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    @property
    def proxy(self) -> FaultProxy:
        """The proxy; touch it from its own loop only, as `order` does."""
        if self._proxy is None:
            raise RuntimeError("the proxy has not been started")
        return self._proxy

    @property
    def port(self) -> int:
        """Where it listens, on 127.0.0.1 or the host given."""
        return self.proxy.port

    def order(self, line: str) -> str:
        """Carry out one order, with the effect in place on return."""

        async def carry_out() -> str:
            return self.proxy.order(line)

        return asyncio.run_coroutine_threadsafe(carry_out(), self._loop).result(10)

    async def _start(self) -> FaultProxy:
        return await FaultProxy(self._upstream, self._host).start()


def address(text: str) -> tuple[str, int]:
    """Read HOST:PORT."""
    host, _, port = text.rpartition(":")
    return host or "127.0.0.1", int(port)


def send(port: int, line: str) -> str:
    """Send one order to a running program and return its reply."""
    with socket.create_connection(("127.0.0.1", port), 5) as sock:
        sock.sendall(line.encode() + b"\n")
        with sock.makefile() as reply:
            return reply.readline().strip()


async def serve(args: argparse.Namespace) -> None:
    """Run as a program until `quit`, SIGTERM or Ctrl-C."""
    proxy = await FaultProxy(address(args.upstream), args.host, args.listen).start()
    server, ended = await proxy.control(args.control)
    where = server.sockets[0].getsockname()[1]
    print(f"listening on {proxy.host}:{proxy.port}, control on 127.0.0.1:{where}", flush=True)
    for number in (signal.SIGTERM, signal.SIGINT):
        asyncio.get_running_loop().add_signal_handler(number, ended.set)
    await ended.wait()
    server.close()
    await proxy.stop()


def main() -> int:
    """Run the proxy, or send an order to a running one."""
    cli = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    cli.add_argument("--listen", type=int, default=0, help="port to listen on (0: any free one)")
    cli.add_argument("--host", default="127.0.0.1", help="address to listen on")
    cli.add_argument("--upstream", default="127.0.0.1:5672", metavar="HOST:PORT")
    cli.add_argument("--control", type=int, default=0, help="control port on loopback (0: any free one)")
    cli.add_argument("--send", nargs="+", metavar=("PORT", "ORDER"), help="order a running proxy and print its reply")
    args = cli.parse_args()
    if args.send:
        answer = send(int(args.send[0]), " ".join(args.send[1:]))
        print(answer)
        return int(answer.startswith("error"))
    asyncio.run(serve(args))
    return 0


if __name__ == "__main__":
    sys.exit(main())
