"""Throw-away services for tests and the demo: RabbitMQ nodes, PostgreSQL, Airflow, broken network links.

One file, one service: `broker_lab` (with `broker` as its command line), `postgres`, `airflow`, `fault_proxy`.
Below them: `apt` and `installs` find or install software, `ports` and `processes` and `waiting` are shared tools.
Everything lives below a directory the caller names and ends with the caller.
"""
