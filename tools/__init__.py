"""The commands behind the Makefile: find-python, make-venv and lock in shell, run_tests and check_sources in Python."""
