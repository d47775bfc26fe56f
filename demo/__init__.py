"""`make demo`: a message starts a DAG, on a machine that has neither RabbitMQ nor Airflow.

`__main__` is the order of events; `settings` reads the variables, `brokers` finds a broker
(`docker` is one of the ways), `orders` publishes, `airflow_side` runs Airflow, `console` prints.
What starts and ends services is the lab of the integration tests, `integration/lab/`.
"""
