"""The provider's metadata is what Airflow's own schema asks for, and names only what exists."""

import json
from importlib import import_module, resources
from importlib.metadata import distribution, version

import jsonschema

import airflow_provider_rmq
from airflow_provider_rmq import get_provider_info


def test_it_validates_against_airflows_schema():
    schema = json.loads(resources.files("airflow").joinpath("provider_info.schema.json").read_text())

    jsonschema.validate(get_provider_info(), schema)


def test_the_version_stands_in_one_place():
    assert get_provider_info()["versions"] == [version("airflow-provider-rmq")] == [airflow_provider_rmq.__version__]


def test_both_entry_points_resolve():
    ours = distribution("airflow-provider-rmq").entry_points
    (provider,) = ours.select(group="apache_airflow_provider", name="provider_info")
    (plugin,) = ours.select(group="airflow.plugins", name="rmq_watcher")

    assert provider.load()() == get_provider_info()
    assert plugin.load().name == "rmq_watcher"


def test_every_module_it_names_exists():
    info = get_provider_info()
    modules = [
        module
        for kind in ("operators", "sensors", "hooks", "triggers")
        for entry in info.get(kind, [])
        for module in entry["python-modules"]
    ]
    classes = [entry["hook-class-name"] for entry in info.get("connection-types", [])]
    classes += [entry["plugin-class"] for entry in info["plugins"]]

    for name in modules:
        import_module(name)
    for path in classes:
        module, _, name = path.rpartition(".")
        assert hasattr(import_module(module), name)
