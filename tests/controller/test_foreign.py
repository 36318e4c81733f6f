"""Kinds that are other people's: the cluster may not have them, nor the operator be allowed to see them."""

import pytest

from controller import builders, fakeserver
from controller.test_core import new_core, new_world, running
from paceline.controller import apiserver
from paceline.planning import kinds
from paceline.planning.view import Sight

ROUTES = apiserver.collection(kinds.HTTP_ROUTE, None)


async def test_kind_that_nobody_asked_for_is_not_watched():
    """It costs no request, and no right."""
    server = new_world()
    one = new_core(server)
    async with running(one):
        await builders.eventually(lambda: one.is_synced)
        assert one.look().sight(kinds.HTTP_ROUTE) is Sight.OFF
        assert one.look().listed(kinds.HTTP_ROUTE, builders.NAMESPACE) == ()
    assert not [path for _, path in server.requests if "httproutes" in path]


@pytest.mark.parametrize(("status", "sight"), [(404, Sight.ABSENT), (403, Sight.REFUSED)])
async def test_kind_that_cannot_be_had_holds_nothing_up_and_may_come_later(status, sight):
    """Passes run, told why nothing is seen; once the kind is there its objects are."""
    server = new_world()
    server.denied[ROUTES] = fakeserver.refusal(status)
    one = new_core(server, gateway=True)
    async with running(one):
        await builders.eventually(lambda: one.is_synced)
        assert one.look().sight(kinds.HTTP_ROUTE) is sight
        server.put(apiserver.item(kinds.HTTP_ROUTE, builders.NAMESPACE, "llm"), {"kind": "HTTPRoute"})
        server.denied.clear()
        await builders.eventually(lambda: one.look().sight(kinds.HTTP_ROUTE) is Sight.SEEN)
        assert one.look().get(kinds.HTTP_ROUTE, builders.NAMESPACE, "llm") is not None
