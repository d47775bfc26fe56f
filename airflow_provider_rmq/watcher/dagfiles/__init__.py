"""From DAG files to declared subscriptions: reads text, never executes it; no Airflow, no database."""
