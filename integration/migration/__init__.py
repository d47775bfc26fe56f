"""Our tables on every database that Airflow supports, from every shape an older release left behind."""
