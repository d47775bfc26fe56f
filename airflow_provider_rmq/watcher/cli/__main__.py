"""`python -m airflow_provider_rmq.watcher.cli`, where the script is not on the path."""

import sys

from airflow_provider_rmq.watcher.cli.main import main

sys.exit(main())
