"""Two who ask for one free node, with every order in which their requests can reach the API server."""

import contextlib
import copy
import itertools

import pytest

from capacity import builders as devices
from controller import builders, fakeserver
from paceline.capacity import forecast, ledger, precedence
from paceline.controller import apiserver, errors, executor, view
from paceline.planning import kinds
from paceline.planning.plan import Apply, Create

ENGINE = {"containers": [{"name": "engine", "resources": {"limits": {devices.GPU: "8"}}}]}
NODE = devices.node("the-only-one")
# Asking, taking over and granting take five requests; what is left after so many is done in turns.
STEPS = 9
ENOUGH = 20


def seating(name, *, asked):
    """Return the claim of a rollout that has nothing yet."""
    return {name: ledger.Wish(count=1, pod_spec=ENGINE, asked=asked)}


def growing(name, *, asked):
    """Return the claim of a rollout that has a node for its candidate, and wants one for another replica."""
    if not asked:
        return {name: ledger.Wish(count=2, pod_spec=ENGINE)}
    more = ledger.Wish(count=1, pod_spec=ENGINE, asked=True, beside=1)
    return {name: ledger.Wish(count=1, pod_spec=ENGINE), f"{name}/more": more}


NODES = {seating: [NODE], growing: [NODE, devices.node("of-one"), devices.node("of-two")]}


def record(name, wishes):
    """Return a record that claims nodes for itself."""
    claim = ledger.document(wishes)
    manifest = builders.config_map(name)
    manifest["metadata"]["labels"] |= ledger.labels(claim)
    manifest["metadata"]["annotations"] = ledger.annotations(claim)
    return manifest


class Asker:
    """One resource that asks for the node, as a rollout does: by its record first, and then pass by pass."""

    def __init__(self, name, server, claims):
        self.name, self._server, self._claims = name, server, claims
        self._nodes = devices.world(NODES[claims], [])
        self._path = apiserver.item(kinds.CONFIG_MAP, builders.NAMESPACE, name)
        self._world = builders.World()
        self._writes = executor.Executor(
            server=server,
            store=self._world.cache,
            fresh=self._world.fresh,
            time=builders.FakeClock(),
            measured=self._world.measured,
            fence=lambda: None,
        )

    async def run(self):
        """Ask, and try to grant until the node is somebody's; what a pass sees holds all that it wrote before."""
        await self._writes.carry_out(builders.KEY, [Create(manifest=self._record(asked=True))])
        while not granted(self._server):
            meta = self._server.objects[self._path]["metadata"]
            version = meta["resourceVersion"]
            place = precedence.Place(record_uid=meta["uid"], resource_version=version)
            found = precedence.stand(picture(self._server, self._world), self._nodes, place)
            before = (*found.promised, *found.own)
            if not forecast.forecast(self._nodes, before, forecast.Claim.of(ENGINE, 1)).is_enough:
                await self._server.request("GET", self._path)  # time goes by
                continue
            grant = Apply(manifest=self._record(asked=False), uid=meta["uid"], resource_version=version)
            with contextlib.suppress(errors.ConflictError):  # the next pass decides on newer facts
                await self._writes.carry_out(builders.KEY, [grant])

    def _record(self, *, asked):
        return record(self.name, self._claims(self.name, asked=asked))


def picture(server, world):
    """Return the records as a watch shows them at this moment."""
    for manifest in server.objects.values():
        world.cache.put(kinds.CONFIG_MAP, copy.deepcopy(manifest))
    return view.CacheView(known=world.cache, heard=None)


def step(running, name):
    """Let one asker's next request through."""
    try:
        running[name].send(None)
    except StopIteration:
        running.pop(name)


def granted(server):
    """Return whose claim the ledger holds as granted, all of it."""
    claims = {path.rsplit("/", 1)[1]: ledger.read(one) for path, one in server.objects.items()}
    return [name for name, claim in claims.items() if claim and not any(one.get("asked") for one in claim.values())]


@pytest.mark.parametrize("claims", [seating, growing])
def test_one_node_is_granted_once_whatever_the_order_of_the_requests(claims):
    """Taking a record's fields over made a version of its own, at which the other saw a place that nobody kept to."""
    for order in itertools.product(("one", "two"), repeat=STEPS):
        server = fakeserver.FakeServer()
        running = {name: Asker(name, server, claims).run() for name in ("one", "two")}
        for name in order:
            if name in running:
                step(running, name)
        for _ in range(ENOUGH):
            for name in tuple(running):
                step(running, name)
        assert not running
        assert len(granted(server)) == 1, order
