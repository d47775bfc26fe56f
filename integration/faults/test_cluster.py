"""Three nodes, a quorum queue: its leader is killed in a burst."""

import pytest

from integration.faults.burst import now
from integration.faults.site import ORDERS, VHOST, Site
from integration.lab.lab_state import LabSettings
from integration.lab.management import quote

pytestmark = pytest.mark.slow_fault


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    settings = LabSettings(names=("n1", "n2", "n3"), cluster=True, settings=("collect_statistics_interval = 1000",))
    quorum = {"x-queue-type": "quorum"}
    with Site(tmp_path_factory.mktemp("cluster"), settings, quorum, through_proxy=False) as site:
        yield site


def leader(site):
    return site.lab.management().get(f"queues/{quote(VHOST)}/{quote(ORDERS)}")["leader"].partition("@")[0]


def test_the_node_of_the_leader_killed(cluster):
    with cluster.burst() as burst:
        burst.wait_for_runs(10)
        killed = leader(cluster)
        begun = now()
        cluster.lab.kill(killed)
        seconds = burst.longest_silence(begun, runs=50)
        assert leader(cluster) != killed
        cluster.lab.start(killed)
    cluster.judge("quorum queue's leader killed, 3 nodes", burst, seconds)
    cluster.wait_until_listening(60)
