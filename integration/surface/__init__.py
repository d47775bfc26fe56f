"""What DAG authors use, on a real broker: hook, operators, sensor, trigger."""
