"""What the provider's metadata names for DAG authors exists."""

from importlib import import_module

import pytest

from airflow_provider_rmq import get_provider_info


def modules():
    info = get_provider_info()
    for kind in ("operators", "sensors", "hooks", "triggers"):
        for entry in info.get(kind, []):
            yield from entry["python-modules"]


@pytest.mark.parametrize("module", list(modules()))
def test_every_module_it_names_can_be_imported(module):
    import_module(module)


def test_the_connection_type_leads_to_the_hook():
    (entry,) = get_provider_info()["connection-types"]
    module, _, name = entry["hook-class-name"].rpartition(".")

    assert entry["connection-type"] == getattr(import_module(module), name).conn_type == "amqp"
