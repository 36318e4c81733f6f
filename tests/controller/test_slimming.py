"""What the cache keeps of an object: all that rooms read, and once what all objects say."""

import copy
import json

import pytest

from controller import builders
from paceline.capacity import forecast
from paceline.controller import slimming
from paceline.planning import kinds
from paceline.rollout.view import podview
from paceline.training import attempts
from paceline.workloads import engines

CONTAINER = {
    "name": engines.CONTAINER,
    "image": "vllm/vllm-openai:v0.33.0",
    "imageID": "sha256:" + "a" * 64,
    "containerID": "containerd://" + "b" * 64,
    "ready": False,
    "started": False,
    "restartCount": 2,
    "resources": {"limits": {"nvidia.com/gpu": "8"}},
    "volumeMounts": [{"name": "models", "mountPath": "/models"}],
    "state": {"waiting": {"reason": "CrashLoopBackOff", "message": "back-off"}},
    "lastState": {
        "terminated": {
            "exitCode": 1,
            "reason": "Error",
            "message": "ValueError: " + "x" * 200,
            "startedAt": "2026-01-01T00:00:00Z",
            "finishedAt": "2026-01-01T00:01:00Z",
        }
    },
}


def pod():
    """Return a pod as an API server gives it."""
    return {
        "apiVersion": "v1",
        "kind": "Pod",
        "metadata": {
            "name": "server-1",
            "namespace": builders.NAMESPACE,
            "uid": "uid-of-server-1",
            "resourceVersion": "7",
            "creationTimestamp": "2026-01-01T00:00:00Z",
            "labels": {"paceline.dev/deployment": "chat", "paceline.dev/part": "server"},
            "annotations": {"paceline.dev/owner": "chat"},
            "managedFields": [{"manager": "kubelet", "fieldsV1": {"f:status": {}}}],
        },
        "spec": {
            "nodeName": "gpu-1",
            "priority": 1000,
            "containers": [{"name": engines.CONTAINER, "image": "x", "args": ["--model"] * 30, "env": []}],
            "volumes": [{"name": "models"}],
            "tolerations": [{"operator": "Exists"}],
        },
        "status": {
            "phase": "Running",
            "podIP": "10.0.0.1",
            "hostIP": "10.1.0.1",
            "qosClass": "Guaranteed",
            "startTime": "2026-01-01T00:00:00Z",
            "conditions": [
                {"type": "PodScheduled", "status": "True", "lastTransitionTime": "2026-01-01T00:00:00Z"},
                {"type": "Ready", "status": "False", "lastTransitionTime": "2026-01-01T00:00:30Z"},
            ],
            "containerStatuses": [CONTAINER],
        },
    }


def test_rooms_read_of_a_slimmed_pod_what_they_read_of_the_whole():
    """Where it runs, how it is, and how it ended."""
    whole, slimmed = pod(), slimming.slim(kinds.POD, pod())
    assert attempts.read(slimmed) == attempts.read(whole)
    assert podview.read(slimmed, container=engines.CONTAINER) == podview.read(whole, container=engines.CONTAINER)
    assert len(json.dumps(slimmed)) < len(json.dumps(whole)) / 1.5


def test_forecast_reads_of_a_slimmed_deployment_what_it_reads_of_the_whole():
    """What its pods ask for, and where they may run; the rest of the template stands in the revision."""
    limits = {"resources": {"limits": {"nvidia.com/gpu": "8", "cpu": "4"}}}
    template = {**pod()["spec"], "containers": [{**CONTAINER, **limits}], "nodeSelector": {"pool": "a"}}
    spec = {"replicas": 2, "selector": {"matchLabels": {"a": "b"}}}
    whole = {"kind": "Deployment", "metadata": {"name": "d"}, "spec": {**spec, "template": {"spec": template}}}
    slimmed = slimming.slim(kinds.DEPLOYMENT, whole)["spec"]
    claim = forecast.Claim.of(slimmed.pop("template")["spec"], 2)
    assert claim == forecast.Claim.of(template, 2)
    assert claim.requests == {"nvidia.com/gpu": 8}
    assert slimmed == spec


@pytest.mark.parametrize("kind", [kinds.CONFIG_MAP, kinds.JOB, kinds.SPECULATIVE_DEPLOYMENT])
def test_others_lose_what_is_in_them_twice(kind):
    """Managed fields, and the copy that kubectl leaves."""
    manifest = builders.config_map(version="1", text="x" * 5000)
    kept = copy.deepcopy(manifest)
    manifest["metadata"]["managedFields"] = [{}]
    manifest["metadata"]["annotations"] = {"kubectl.kubernetes.io/last-applied-configuration": "{}", "kept": "1"}
    kept["metadata"]["annotations"] = {"kept": "1"}
    assert slimming.slim(kind, manifest) == kept


def test_same_names_and_short_texts_are_kept_once():
    """A thousand objects of one shape would else hold a thousand copies of every word."""
    one, other = (slimming.slim(kinds.POD, json.loads(json.dumps(pod()))) for _ in range(2))
    assert one["metadata"]["uid"] is other["metadata"]["uid"]
    assert [id(name) for name in one["status"]] == [id(name) for name in other["status"]]
