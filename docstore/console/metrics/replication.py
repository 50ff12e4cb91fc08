"""Metrics of a member of a replica set: its members as this one sees them, and the oplog."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import Any

from bson.datetime_ms import DatetimeMS
from prometheus_client.core import Metric

from docstore.console.metrics.families import gauge, gauges

_PRIMARY = 1
_OF_DATA = (1, 2, 3, 5, 9)
"""The states of members with data, which have a lag."""


def replication_metrics(status: dict[str, Any], replication: dict[str, Any] | None) -> Iterator[Metric]:
    oplog = status.get("oplog")
    if oplog is not None:
        first, last = oplog["earliestOptime"].time, oplog["latestOptime"].time
        yield gauge("docstore_oplog_window_seconds", "Between the first and the last entry.", max(last - first, 0))
        yield gauge("docstore_oplog_last_timestamp_seconds", "When the last entry was written.", last)
    if replication is None:
        return
    set_name, members = replication["set"], replication["members"]
    yield gauge("docstore_replset_state", "The state of this member, by its number.", replication["myState"])
    yield gauge("docstore_replset_term", "The term of elections.", float(replication["term"]))
    labels = ("set", "member")
    states = [((set_name, member["name"]), float(member["state"])) for member in members]
    yield gauges(
        "docstore_replset_member_state", "The state of each member, as seen from here, by its number.", labels, states
    )
    healthy = [((set_name, member["name"]), float(member["health"])) for member in members]
    yield gauges("docstore_replset_member_healthy", "Whether a member answers.", labels, healthy)
    pings = [((set_name, member["name"]), member["pingMs"] / 1000) for member in members if "pingMs" in member]
    yield gauges("docstore_replset_member_ping_seconds", "The way to a member and back.", labels, pings)
    lags = [((set_name, name), lag) for name, lag in lags_of(members).items()]
    yield gauges("docstore_replset_member_lag_seconds", "How far a member is behind the primary.", labels, lags)
    optimes = replication["optimes"]
    commit_lag = seconds(optimes["lastAppliedWallTime"]) - seconds(optimes["lastCommittedWallTime"])
    yield gauge("docstore_replset_commit_lag_seconds", "How old the newest write is that a majority has.", commit_lag)


def lags_of(members: list[dict[str, Any]]) -> dict[str, float]:
    """Return the seconds between the newest writes of the primary and of each other member with data; without a
    primary, of the newest member.
    """
    dates = {member["name"]: seconds(member["optimeDate"]) for member in members if member["state"] in _OF_DATA}
    primary = next((dates[member["name"]] for member in members if member["state"] == _PRIMARY), None)
    newest = max(dates.values(), default=0.0) if primary is None else primary
    return {name: max(newest - date, 0.0) for name, date in dates.items()}


def seconds(date: DatetimeMS | datetime) -> float:
    """Since 1970."""
    return date.timestamp() if isinstance(date, datetime) else int(date) / 1000
