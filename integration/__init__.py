"""Tests against a real broker, a real database and a real Airflow. The lab that starts them is in `lab/`."""
