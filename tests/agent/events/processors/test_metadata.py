"""The processor `metadata`: what a file's path says of the container that wrote it."""

import os

from agent.delivery.source_steps import source_metadata
from agent.events.event import Event, SourceAbout
from agent.events.processors.counters import RuleCounter
from agent.events.processors.metadata import MetadataAdder, container_fields, kubernetes_fields

ID = "0123456789abcdef" * 4
UID = "9f4b2c4e-52d8-4c5e-9d0a-7d9c6b1e0a11"
POD = {"namespace": "shop", "pod": {"name": "cart-7c9d-x2z"}, "container": {"name": "app"}}


def test_the_path_of_a_pod_s_file_names_pod_and_container() -> None:
    for name in ("3.log", "3.log.20260102-100000", "3.log.20260102-100000.gz"):
        path = f"/var/log/pods/shop_cart-7c9d-x2z_{UID}/app/{name}"
        assert kubernetes_fields(path) == {
            "kubernetes": {
                "namespace": "shop",
                "pod": {"name": "cart-7c9d-x2z", "uid": UID},
                "container": {"name": "app", "restarts": 3},
            }
        }
        assert container_fields(path) == {}
    # a static pod, whose UID is a hash of its file
    path = f"/var/log/pods/kube-system_etcd-node.example.org_{ID[:32]}/etcd/0.log"
    assert kubernetes_fields(path)["kubernetes"]["pod"] == {
        "name": "etcd-node.example.org",
        "uid": ID[:32],
    }


def test_the_path_of_a_container_s_link_names_pod_and_container() -> None:
    path = f"/var/log/containers/cart-7c9d-x2z_shop_app-{ID}.log"
    assert kubernetes_fields(path) == {"kubernetes": POD}
    assert container_fields(path) == {"container": {"id": ID}}
    # a container's name may have hyphens, too
    path = f"/var/log/containers/cart_shop_side-car-{ID}.log"
    assert kubernetes_fields(path)["kubernetes"]["container"] == {"name": "side-car"}


def test_the_path_of_docker_s_file_names_the_container() -> None:
    path = f"/var/lib/docker/containers/{ID}/{ID}-json.log.1"
    assert container_fields(path) == {"container": {"id": ID}}
    assert kubernetes_fields(path) == {}
    assert container_fields(f"/var/lib/docker/containers/{ID}/{ID[::-1]}-json.log") == {}
    assert container_fields("/var/log/syslog") == kubernetes_fields("/var/log/syslog") == {}


def test_each_event_gets_fields_of_its_own_beside_those_of_its_line() -> None:
    adder = MetadataAdder({"kubernetes": POD}, counter := RuleCounter(0, "metadata"))
    events = [Event(0, 1, "a"), Event(1, 2, "b", fields={"kubernetes": {"node": "n"}, "x": 1})]
    assert adder.process_events(events) == events
    first, second = events
    assert first.fields == {"kubernetes": POD}
    assert second.fields == {"kubernetes": {"node": "n"} | POD, "x": 1}
    first.fields["kubernetes"]["pod"].clear()
    assert second.fields["kubernetes"]["pod"] == POD["pod"]
    assert counter.events == 2


def test_only_what_was_asked_for_is_added() -> None:
    path = f"/var/log/containers/cart-7c9d-x2z_shop_app-{ID}.log"
    about = SourceAbout(path, "web-1", "a")
    assert source_metadata(["container"], about) == {"container": {"id": ID}}
    every = source_metadata(["host", "container", "kubernetes"], about)
    assert every.keys() == {"host", "container", "kubernetes"}
    assert every["host"]["name"] == "web-1"
    assert every["host"]["os"]["kernel"] == os.uname().release
