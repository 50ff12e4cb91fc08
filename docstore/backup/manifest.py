"""The manifest of a backup: `manifest.json`, the file written last, with the checksums of all others and its own.

A backup has a part for each set: "node", "set", or "config" and the names of the shards. A part consists of the files
of a checkpoint, unless the backup is of the oplog alone, and of a span of the oplog. Invariants of a part of a set:

- the checkpoint ends at an entry between `after` and `until`, both included;
- its span begins at or before `after` and holds every committed entry from its `start` to the backup's `point`;
- `start` is the `end` of the span before if the oplog still had that, so that spans join.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from bson.timestamp import Timestamp

from docstore.backup.failures import Damaged
from docstore.optime import OpTime, pack_timestamp, unpack_timestamp

FORMAT = 1
NAME = "manifest.json"
OPLOG = "oplog.bson"


@dataclass(frozen=True, slots=True, kw_only=True)
class StoredFile:
    """A file of a checkpoint: `size` bytes, changed on the server at `modified` (ns), with a SHA-256."""

    name: str
    size: int
    modified: int
    sha256: str

    @property
    def immutable(self) -> bool:
        return self.name.endswith(".sst")

    def is_same(self, name: str, size: int, modified: int) -> bool:
        """True if the arguments, of a file of the same database, describe this one."""
        return self.immutable and (self.name, self.size, self.modified) == (name, size, modified)


@dataclass(frozen=True, slots=True, kw_only=True)
class Span:
    """Entries of the oplog from `start` to `end`, both included, in a file of `size` bytes."""

    start: OpTime
    end: OpTime
    entries: int
    size: int
    sha256: str


@dataclass(frozen=True, slots=True, kw_only=True)
class Part:
    """One set, or a standalone node. `database`: the database that `files` belong to; `directory`: below the
    backup's. `collections`: the number of documents and the digest of each at the point, if recorded.
    """

    name: str
    directory: str
    member: str
    set_name: str | None
    set_id: str | None
    database: str
    files: tuple[StoredFile, ...]
    after: OpTime | None
    until: OpTime | None
    span: Span | None
    collections: Mapping[str, tuple[int, str]] | None

    @property
    def owner(self) -> str:
        """Return the identity that all backups of the part in a repository share."""
        return self.set_id or self.database


@dataclass(frozen=True, slots=True, kw_only=True)
class Manifest:
    """The manifest.

    `kind`: "node", "set" or "cluster". `content`: "full", "incremental" or "oplog". `point`: the time whose state it
    restores; None without an oplog. `began` and `ended`: UTC, ISO 8601; backups of programs that did not note the end
    have the beginning as both.
    """

    name: str
    kind: str
    content: str
    began: str
    ended: str
    point: Timestamp | None
    version: str
    parts: tuple[Part, ...]

    @property
    def has_files(self) -> bool:
        return self.content != "oplog"

    def part(self, name: str) -> Part | None:
        return next((part for part in self.parts if part.name == name), None)

    @property
    def size(self) -> int:
        """Return the bytes of all files that it lists."""
        spans = [part.span.size for part in self.parts if part.span is not None]
        return sum(file.size for part in self.parts for file in part.files) + sum(spans)

    def encode(self) -> bytes:
        content = {
            "format": FORMAT,
            "name": self.name,
            "kind": self.kind,
            "content": self.content,
            "began": self.began,
            "ended": self.ended,
            "point": None if self.point is None else timestamp_text(self.point),
            "version": self.version,
            "parts": [_part_document(part) for part in self.parts],
        }
        return json.dumps({"sha256": _digest(content), "manifest": content}, indent=1).encode() + b"\n"

    @classmethod
    def decode(cls, raw: bytes, location: str) -> Self:
        """Errors: Damaged."""
        try:
            document = json.loads(raw)
            content = document["manifest"]
            if _digest(content) != document["sha256"]:
                raise Damaged(f"{location} is damaged: its checksum is not that of its content")
            if content["format"] != FORMAT:
                raise Damaged(f"{location} is of format {content['format']}; this program reads format {FORMAT}")
            return cls(
                name=content["name"],
                kind=content["kind"],
                content=content["content"],
                began=content["began"],
                ended=content.get("ended", content["began"]),
                point=None if content["point"] is None else parse_timestamp(content["point"]),
                version=content["version"],
                parts=tuple(map(_part, content["parts"])),
            )
        except (ValueError, KeyError, TypeError) as error:
            raise Damaged(f"{location} is damaged: {error}") from error


def timestamp_text(value: Timestamp) -> str:
    """`seconds:increment`"""
    return f"{value.time}:{value.inc}"


def parse_timestamp(text: str) -> Timestamp:
    """Errors: ValueError."""
    seconds, _, increment = text.partition(":")
    return Timestamp(int(seconds), int(increment or 0))


def _digest(content: Mapping[str, Any]) -> str:
    return hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()


def _optime_document(value: OpTime | None) -> Any:
    return None if value is None else [timestamp_text(unpack_timestamp(value.timestamp)), value.term]


def _optime(value: Any) -> OpTime | None:
    return None if value is None else _known_optime(value)


def _known_optime(value: Any) -> OpTime:
    text, term = value
    return OpTime(int(term), pack_timestamp(parse_timestamp(text)))


def _part_document(part: Part) -> dict[str, Any]:
    span = part.span
    return {
        "name": part.name,
        "directory": part.directory,
        "member": part.member,
        "setName": part.set_name,
        "setId": part.set_id,
        "database": part.database,
        "after": _optime_document(part.after),
        "until": _optime_document(part.until),
        "files": [[file.name, file.size, file.modified, file.sha256] for file in part.files],
        "oplog": None
        if span is None
        else {
            "start": _optime_document(span.start),
            "end": _optime_document(span.end),
            "entries": span.entries,
            "size": span.size,
            "sha256": span.sha256,
        },
        "collections": None
        if part.collections is None
        else {name: list(has) for name, has in part.collections.items()},
    }


def _part(document: Mapping[str, Any]) -> Part:
    span, collections = document["oplog"], document["collections"]
    return Part(
        name=document["name"],
        directory=document["directory"],
        member=document["member"],
        set_name=document["setName"],
        set_id=document["setId"],
        database=document["database"],
        after=_optime(document["after"]),
        until=_optime(document["until"]),
        files=tuple(
            StoredFile(name=name, size=size, modified=modified, sha256=sha256)
            for name, size, modified, sha256 in document["files"]
        ),
        span=None
        if span is None
        else Span(
            start=_known_optime(span["start"]),
            end=_known_optime(span["end"]),
            entries=span["entries"],
            size=span["size"],
            sha256=span["sha256"],
        ),
        collections=None if collections is None else {name: (has[0], has[1]) for name, has in collections.items()},
    )
