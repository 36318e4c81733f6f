"""Weights of an HTTPRoute on a real API server, with the Gateway API's own CRD; pods and the gateway are played."""

import asyncio
import dataclasses

import pytest

import chartroles
import gatewayapi
import harness
import killproxy
import kubeletless
import liveusers
import playbook
from api import builders
from paceline.api import names
from paceline.controller import errors
from paceline.planning import kinds

pytestmark = [pytest.mark.cluster, pytest.mark.timeout(600)]

SERVED = "served"
VERBS = {(verb, "gateway.networking.k8s.io", "httproutes") for verb in ("get", "list", "watch", "patch")}


def deployment(namespace, *, tokens, **changes):
    """Return a resource of one replica behind a route, whose steps are short."""
    quick = {
        "speculation": {"method": "Ngram", "numSpeculativeTokens": tokens} if tokens else {"method": "None"},
        "traffic": {"httpRoute": {"name": gatewayapi.ROUTE}},
        "rollout": {
            "analysis": {"measuringCopy": "Never"},
            "steps": [{"weight": 20, "pause": "2s"}, {"weight": 60, "pause": "2s"}],
            "deadlines": {"draining": "2s"},
        },
        "guard": {"enabled": False},
    }
    made = builders.deployment(SERVED, **builders.merged(quick, changes))
    return {**made, "metadata": {**made["metadata"], "namespace": namespace}}


async def reached(api, namespace, claim):
    """Wait until a claim holds of the status, and return that."""
    found = await harness.reached(api, kinds.SPECULATIVE_DEPLOYMENT, namespace, SERVED, claim, within_s=180.0)
    return found["status"]


def told(kind):
    """Return what reads a condition's reason out of a status."""
    return lambda status: {one["type"]: one["reason"] for one in status.get("conditions") or ()}.get(kind)


def serves(method):
    """Return the claim that a revision of this method has a ready pod."""
    return lambda status: (status.get("stable") or {}).get("method") == method and status.get("readyReplicas") == 1


def at_rest(method, reason):
    """Return the claim that a rollout has ended so, with this serving."""
    return lambda status: serves(method)(status) and told("Progressing")(status) == reason


async def clean(api, namespace):
    """Wait until nothing of ours is left on the route, and return it."""
    async with asyncio.timeout(120):
        while True:
            found = await api.get(kinds.HTTP_ROUTE, namespace, gatewayapi.ROUTE)
            owners = found["metadata"]["managedFields"]
            # The played gateway has the operator's client, and so its name, but for the status.
            ours = [one for one in owners if one["manager"] == names.FIELD_MANAGER and not one.get("subresource")]
            if not found["metadata"].get("annotations") and not ours:
                return found
            await asyncio.sleep(0.2)


async def services(api, namespace):
    """Return the parts of our Services."""
    found = [one["metadata"].get("labels") or {} for one in await api.items(kinds.SERVICE, namespace)]
    return [one[names.LABEL_PART] for one in found if names.LABEL_PART in one]


async def test_candidates_win_and_lose_by_the_weights_of_a_users_route(control_plane, api, namespace, tmp_path):
    """From a cluster without the Gateway API to a promotion and a rollback, under the chart's own role.

    The weights are what the gateway saw, version by version. Everything else of the route stays the user's, who may
    apply it before and after without a conflict, and meets one in the middle of a share.
    """
    definition = gatewayapi.definition(tmp_path)
    await gatewayapi.remove(api)
    documents = chartroles.roles(control_plane, namespace, f"watchNamespaces={{{namespace}}}", "gateway.enabled=true")
    settings = {
        "PACELINE_NAMESPACE": namespace,
        "PACELINE_NAMESPACES": namespace,
        "PACELINE_FORECAST": "false",
        "PACELINE_GATEWAY": "true",
        "PACELINE_SCRAPE_INTERVAL": "1s",
        "PACELINE_RESYNC": "2s",
        "PACELINE_LEASE_NAME": documents[-1]["roleRef"]["name"][: -len("-lease")],
    }
    user = f"system:serviceaccount:{namespace}:{documents[-1]['subjects'][0]['name']}"
    script = playbook.Playbook(api=api, namespace=namespace, speeds={"Ngram": 150.0})

    async def play(pod):
        found = await script(pod)
        return found and dataclasses.replace(found, ip=liveusers.address(namespace))

    try:
        with chartroles.applied(control_plane, documents):
            async with (
                killproxy.kill_proxy(control_plane.kubeconfig, folder=tmp_path, impersonate=user) as (proxy, proxied),
                kubeletless.playing(api, namespace, play),
            ):
                with harness.run_operator(proxied, log=tmp_path / "log", **settings) as operator:
                    await operator.ready()
                    await api.create(kinds.SPECULATIVE_DEPLOYMENT, deployment(namespace, tokens=0))
                    await reached(api, namespace, lambda status: told("Routed")(status) == "RoutesUnseen")
                    await reached(api, namespace, serves("None"))
                    await gatewayapi.install(api, definition)
                    await gatewayapi.apply(api, gatewayapi.route(namespace, SERVED))
                    async with gatewayapi.running(api, namespace) as gateway:
                        await reached(api, namespace, lambda status: told("Routed")(status) == "RouteAccepted")
                        await wins(api, namespace, gateway)
                        await loses(api, namespace, gateway)
                        await rests(operator)
        assert proxy.forbidden == []
        used = {(one.verb, one.group, one.resource) for one in proxy.asked}
        assert {one for one in used if one[1] == "gateway.networking.k8s.io"} == VERBS
    finally:
        await gatewayapi.remove(api)


async def wins(api, namespace, gateway):
    """Promote a candidate step by step; the user applies the route meanwhile."""
    async with liveusers.using(namespace, accepted_a_draft=1.2):
        await ask_for(api, namespace, 3)
        await reached(api, namespace, lambda status: (status.get("rollout") or {}).get("weight") == 20)
        with pytest.raises(errors.ConflictError, match=names.FIELD_MANAGER):
            await gatewayapi.apply(api, gatewayapi.route(namespace, SERVED))
        await reached(api, namespace, at_rest("Ngram", "Promoted"))
        after = await clean(api, namespace)
    assert gateway.weights == [(1,), (100, 0), (80, 20), (40, 60), (100, 0), (1,)]
    assert after["metadata"]["labels"] == {"team": "search"}
    wanted = await gatewayapi.apply(api, gatewayapi.route(namespace, SERVED))
    assert wanted["spec"] == after["spec"]
    changed = await gatewayapi.apply(api, gatewayapi.route(namespace, SERVED, timeout="30s"))
    assert changed["spec"]["rules"][0]["timeouts"] == {"request": "30s"}
    assert await services(api, namespace) == ["front"]


async def loses(api, namespace, gateway):
    """Take back a candidate whose head is dead on users' traffic, in a step that is long enough to see it."""
    before = len(gateway.weights)
    async with liveusers.using(namespace, accepted_a_draft=0.0):
        await ask_for(api, namespace, 5, rollout={"steps": [{"weight": 20, "pause": "10m"}, {"weight": 60}]})
        await reached(api, namespace, at_rest("Ngram", "DeadDraft"))
        after = await clean(api, namespace)
    assert gateway.weights[before:] == [(100, 0), (80, 20), (100, 0), (1,)]
    assert after["spec"]["rules"][0]["timeouts"] == {"request": "30s"}
    assert after["spec"]["rules"][1]["backendRefs"][0]["name"] == "docs"


async def rests(operator):
    """See passes that write nothing at all."""

    def outcomes():
        return [one["outcome"] for one in operator.lines("pass")]

    def writes():
        return [one for one in operator.ask("/metrics")[1].splitlines() if one.startswith("paceline_writes_total")]

    await harness.until(lambda: outcomes()[-2:] == ["settled"] * 2, within_s=60, saying=operator.tail)
    before, passes = writes(), len(outcomes())
    await harness.until(lambda: len(outcomes()) >= passes + 2, within_s=60, saying=operator.tail)
    assert writes() == before


async def ask_for(api, namespace, tokens, **changes):
    """Edit what is drafted, and more."""
    spec = {"speculation": {"method": "Ngram", "numSpeculativeTokens": tokens}, **changes}
    await api.merge(kinds.SPECULATIVE_DEPLOYMENT, namespace, SERVED, {"spec": spec})
