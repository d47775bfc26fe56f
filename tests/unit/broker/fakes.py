"""A queue in memory, with a consumer's view of it."""

import asyncio
from collections import deque
from contextlib import asynccontextmanager

from factories import message

from airflow_provider_rmq.errors import AlreadySettled, ConnectionLost
from airflow_provider_rmq.messages.settlement import Settlement


class FakeDelivery:
    def __init__(self, queue, body):
        self.queue = queue
        self.message = message(body)
        self.settlement = None
        self.undecodable = "it is poison" if body.startswith(b"poison") else None

    async def settle(self, settlement):
        if self.settlement is not None:
            raise AlreadySettled("twice")
        await asyncio.sleep(0)
        if self.queue.broken:
            raise ConnectionLost("the link is gone")
        self.settlement = settlement
        self.queue.unsettled -= 1
        self.queue.settled.append((self.message.text(), settlement))
        if settlement is Settlement.REQUEUE:
            self.queue.ready.appendleft(self.message.body)


class FakeAttachment:
    def __init__(self, queue, number):
        self.queue = queue
        self.tag = f"tag-{number}"
        self.since = 0.0
        self.error = None
        self.finished = False
        self.holds_registration = True

    def __aiter__(self):
        return self

    async def __anext__(self):
        while True:
            if self.error:
                raise self.error
            if self.finished:
                raise StopAsyncIteration
            if self.queue.ready and self.queue.unsettled < self.queue.prefetch:
                self.queue.unsettled += 1
                self.queue.most_unsettled = max(self.queue.most_unsettled, self.queue.unsettled)
                delivery = FakeDelivery(self.queue, self.queue.ready.popleft())
                self.queue.delivered.append(delivery)
                return delivery
            await asyncio.sleep(0.01)

    async def set_prefetch(self, prefetch):
        self.queue.prefetch = prefetch
        self.queue.prefetches.append(prefetch)
        self.tag = f"{self.tag}+"

    def finish(self):
        self.finished = True

    def abort(self, error):
        self.error = self.error or error


class FakeQueue:
    """Also the source that consumers attach to; `refusals` are raised by the attaches to come.

    What is requeued goes to the head, and no more than `prefetch` deliveries are unsettled: as a broker does it.
    """

    def __init__(self, *bodies, refusals=(), prefetch=1000):
        self.ready = deque(body.encode() for body in bodies)
        self.settled = []
        self.delivered = []
        self.refusals = deque(refusals)
        self.attachments = []
        self.broken = False
        self.prefetch = prefetch
        self.prefetches = []
        self.unsettled = self.most_unsettled = 0

    def put(self, body):
        self.ready.append(body)

    @asynccontextmanager
    async def attach(self):
        if self.refusals:
            raise self.refusals.popleft()
        attachment = FakeAttachment(self, len(self.attachments))
        self.attachments.append(attachment)
        yield attachment
