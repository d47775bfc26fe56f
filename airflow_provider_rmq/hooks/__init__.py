"""The RabbitMQ hook."""
