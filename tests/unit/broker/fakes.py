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

    async def settle(self, settlement):
        if self.settlement is not None:
            raise AlreadySettled("twice")
        await asyncio.sleep(0)
        if self.queue.broken:
            raise ConnectionLost("the link is gone")
        self.settlement = settlement
        self.queue.settled.append((self.message.text(), settlement))
        if settlement is Settlement.REQUEUE:
            self.queue.put(self.message.body)


class FakeAttachment:
    def __init__(self, queue, number):
        self.queue = queue
        self.tag = f"tag-{number}"
        self.since = 0.0
        self.error = None
        self.finished = False

    def __aiter__(self):
        return self

    async def __anext__(self):
        while True:
            if self.error:
                raise self.error
            if self.finished:
                raise StopAsyncIteration
            if self.queue.ready:
                delivery = FakeDelivery(self.queue, self.queue.ready.popleft())
                self.queue.delivered.append(delivery)
                return delivery
            await asyncio.sleep(0.01)

    def finish(self):
        self.finished = True

    def abort(self, error):
        self.error = self.error or error


class FakeQueue:
    """Also the source that consumers attach to; `refusals` are raised by the attaches to come."""

    def __init__(self, *bodies, refusals=()):
        self.ready = deque(body.encode() for body in bodies)
        self.settled = []
        self.delivered = []
        self.refusals = deque(refusals)
        self.attachments = []
        self.broken = False

    def put(self, body):
        self.ready.append(body)

    @asynccontextmanager
    async def attach(self):
        if self.refusals:
            raise self.refusals.popleft()
        attachment = FakeAttachment(self, len(self.attachments))
        self.attachments.append(attachment)
        yield attachment
