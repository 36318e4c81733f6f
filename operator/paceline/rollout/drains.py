"""Remembers that a pod ended beside the arms of a rollout, and when it was gone: the API server does not.

Only the rollout's own nodes count. The mark rides on whatever the pass decides, so it costs no step of its own.
"""

from paceline.planning import conditions
from paceline.rollout.steps import Case


def marked(case: Case) -> Case:
    """Return the case with the mark as it is now; the same case when it has not changed."""
    record, seen = case.record, case.seen
    servers = [seen.server(digest) for digest in {record.candidate, record.control, record.stable}]
    nodes = {pod.node for server in servers if server is not None for pod in server.pods}
    draining = not nodes.isdisjoint(seen.draining_nodes)
    if draining == record.draining:
        return case
    update: dict[str, object] = {"draining": draining}
    if not draining:
        update["drained_at"] = conditions.timestamp(case.now)
    return Case(seen=seen, record=record.model_copy(update=update), now=case.now)
