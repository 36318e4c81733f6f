"""What stopping the only replica is said to cost, from what loading and measuring stable were seen to take."""

from paceline.rollout.places import downtime
from rollout import builders
from rollout.gpus import GpuCluster, resource
from rollout.reading import history

LOAD_S = 300.0
GRACE_S, LEAD_S = 60, 15  # of a template that does not say, as workloads.endings spends them


def stopped() -> GpuCluster:
    """Return a cluster of one node whose only replica was just asked to make way for a loser."""
    policy = {"replace": {"allowDowntime": True}}
    cluster = GpuCluster(resource(speculation=builders.none(), policy=policy), {"gpu-1": 8})
    cluster.load_s = LOAD_S
    cluster.settle(passes=100, quiet_s=LOAD_S + 200.0)
    cluster.speeds["EAGLE3 k=3"] = 0.7
    cluster.edit(speculation=builders.eagle3())
    cluster.until(lambda: is_released(cluster), seconds=5.0)
    return cluster


def is_released(cluster: GpuCluster) -> bool:
    """Whether stable was asked to make way."""
    opened = history(cluster).open
    return bool(opened and opened.record.released_at)


def test_statement_holds_loads_measuring_and_the_ends_of_pods() -> None:
    """The candidate's load and stable's, a turn that is slower than stable's was, and the time in which pods end."""
    opened = history(stopped()).open
    assert opened is not None
    record = opened.record
    assert record.turn_took_s > 0
    expected = 2 * LOAD_S + 1.5 * record.turn_took_s + GRACE_S + LEAD_S
    assert abs(record.expected_downtime_s - expected) <= 1


def test_condition_says_that_the_stop_was_meant_and_how_long_it_takes() -> None:
    """Who finds no service is told what was consented to, then that stable is loaded again, then that it serves."""
    cluster = stopped()
    told: list[str] = []
    for _ in range(300):
        cluster.operate()
        cluster.play(5.0)
        available = cluster.condition("Available")
        if available["message"] not in told:
            told.append(available["message"])
    short = cluster.resource["status"]["stable"]["hash"]
    stops = next(at for at, one in enumerate(told) if f"Revision {short} is stopped for candidate" in one)
    assert "without service, at most 2h20m" in told[stops]
    assert "is loaded again" in told[stops + 1]
    assert "serves with 1 of 1" in told[stops + 2]
    assert len(told) == stops + 3


def test_span_is_said_in_whole_minutes_rounded_up() -> None:
    """As people say it, and as the API takes it."""
    assert [downtime.in_words(one) for one in (1, 60, 61, 3600, 3661)] == ["1m", "1m", "2m", "1h0m", "1h2m"]
