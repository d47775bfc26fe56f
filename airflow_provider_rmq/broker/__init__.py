"""Everything that talks to RabbitMQ; the only package that imports pika, aio-pika and httpx."""
