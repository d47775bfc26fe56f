"""The command `airflow-rmq`, for a person at a shell or a script: see `main`."""
