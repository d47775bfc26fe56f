"""What should happen to one message: pure decisions, without Airflow, a client library or a clock."""
