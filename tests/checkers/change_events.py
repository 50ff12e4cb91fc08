"""What a change stream tells, applied to an empty copy: each event once, in order, and each fits what came before and
names its document as the collection is sharded.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from tests.checkers.history import Anomaly


class Copy:
    """The copy of one follower. `anomalies`: what no correct stream tells; `taken` counts events.

    `shard_key`: fields that every document has, by which the collections are sharded; `of_collections`: those of some
    collections, where these differ.
    """

    def __init__(
        self, shard_key: tuple[str, ...] = (), *, of_collections: Mapping[str, tuple[str, ...]] | None = None
    ) -> None:
        self._named_by = _with_id(shard_key)
        self._of_collections = {name: _with_id(fields) for name, fields in (of_collections or {}).items()}
        self.anomalies: list[Anomaly] = []
        self.taken = 0
        self._documents: dict[str, dict[Any, dict[str, Any]]] = {}
        self._last = ""

    def begin_with(self, documents: Mapping[str, list[dict[str, Any]]]) -> None:
        """What there was, by collection, when the stream began."""
        for name, listed in documents.items():
            self._documents[name] = {document["_id"]: dict(document) for document in listed}

    def take(self, event: dict[str, Any]) -> None:
        """The next event."""
        self.taken += 1
        token = event["_id"]["_data"]
        if token <= self._last:
            self._wrong(event, "comes again, or too late")
            return
        self._last = token
        kind = event["operationType"]
        if kind == "invalidate":
            self._wrong(event, "ends the stream")
        if kind not in ("insert", "update", "replace", "delete"):
            return
        documents = self._documents.setdefault(event["ns"]["coll"], {})
        identity = event["documentKey"]["_id"]
        if (kind == "insert") == (identity in documents):
            self._wrong(event, "does not fit what was told before")
            return
        known = event["fullDocument"] if kind in ("insert", "replace") else documents[identity]
        named_by = self._of_collections.get(event["ns"]["coll"], self._named_by)
        if list(event["documentKey"].items()) != [(field, known.get(field)) for field in named_by]:
            self._wrong(event, f"is not named by {named_by} of {known}")
        if kind == "delete":
            del documents[identity]
        elif kind == "update":
            _update(documents[identity], event["updateDescription"])
        else:
            documents[identity] = event["fullDocument"]

    def differences(self, final: dict[str, list[dict[str, Any]]]) -> list[str]:
        """How the copy differs from the documents of some collections."""
        found = []
        for name, listed in final.items():
            there = {document["_id"]: document for document in listed}
            mine = self._documents.get(name, {})
            found += [
                f"{name} {identity}: {mine.get(identity)}, not {there.get(identity)}"
                for identity in there.keys() | mine.keys()
                if mine.get(identity) != there.get(identity)
            ]
        return sorted(found)

    def _wrong(self, event: dict[str, Any], how: str) -> None:
        named = f"{event['operationType']} of {event.get('documentKey')} at {event['clusterTime']}"
        self.anomalies.append(Anomaly("change event", f"{named} {how}", ()))


def _with_id(fields: tuple[str, ...]) -> list[str]:
    return [*fields, *(() if "_id" in fields else ("_id",))]


def _update(document: dict[str, Any], change: dict[str, Any]) -> None:
    for path, value in change["updatedFields"].items():
        *way, last = path.split(".")
        place: Any = document
        for part in way:
            place = place[int(part) if isinstance(place, list) else part]
        if isinstance(place, list):
            place[int(last) :] = [value, *place[int(last) + 1 :]]
        else:
            place[last] = value
    for path in change["removedFields"]:
        document.pop(path, None)
    for each in change["truncatedArrays"]:
        del document[each["field"]][each["newSize"] :]
