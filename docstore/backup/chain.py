"""Chains of backups that lead to a time: one with files, and the spans of the oplog from there on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from bson.timestamp import Timestamp

from docstore.backup.failures import OutOfReach
from docstore.backup.manifest import Manifest, timestamp_text
from docstore.optime import pack_timestamp


@dataclass(frozen=True, slots=True)
class Chain:
    """`backups`: the first has the files, each has a span that begins where the one before ends. `point`: the time to
    restore, None where there is no oplog.
    """

    backups: tuple[Manifest, ...]
    point: Timestamp | None

    @property
    def base(self) -> Manifest:
        return self.backups[0]


def chain_to(manifests: Sequence[Manifest], name: str | None, at: Timestamp | None) -> Chain:
    """Return the chain to the state of a backup (the newest by default), or to a time. Errors: OutOfReach."""
    if not manifests:
        raise OutOfReach("the repository has no backup")
    if at is None:
        last = manifests[-1] if name is None else _named(manifests, name)
        if last.has_files:
            return Chain((last,), last.point)
        at = last.point
        assert at is not None, "the oplog has a time"
    elif name is not None:
        raise OutOfReach("a time and a backup's name exclude each other: the time says which backup it is")
    return _to_time(manifests, at)


def _named(manifests: Sequence[Manifest], name: str) -> Manifest:
    matches = [manifest for manifest in manifests if manifest.name == name]
    if not matches:
        raise OutOfReach(f"there is no backup {name}")
    return matches[0]


def _to_time(manifests: Sequence[Manifest], at: Timestamp) -> Chain:
    bases = [index for index, manifest in enumerate(manifests) if manifest.has_files and begins_by(manifest, at)]
    if not bases:
        raise OutOfReach(f"the oldest backup is later than {timestamp_text(at)}, or has no oplog")
    backups = [manifests[bases[-1]]]
    for following in manifests[bases[-1] + 1 :]:
        point = backups[-1].point
        assert point is not None, "what follows a backup with a time has one"
        if point >= at:
            break
        if not _joins(backups[-1], following):
            raise OutOfReach(f"the oplog between {backups[-1].name} and {following.name} was not saved")
        backups.append(following)
    point = backups[-1].point
    if point is None or point < at:
        last = "none" if point is None else timestamp_text(point)
        raise OutOfReach(f"{timestamp_text(at)} is later than the newest backup, which ends at {last}")
    return Chain(tuple(backups), at)


def begins_by(manifest: Manifest, at: Timestamp) -> bool:
    """Return True if every checkpoint of a backup ends at `at` or before: its logs reach that time."""
    time = pack_timestamp(at)
    return all(part.until is not None and part.until.timestamp <= time for part in manifest.parts)


def _joins(earlier: Manifest, later: Manifest) -> bool:
    """Return True if every part has the same set in both backups, and its logs have no gap.

    A set that joins or leaves the cluster does so at a time between two backups, which neither knows.
    """
    if {part.name for part in earlier.parts} != {part.name for part in later.parts}:
        return False
    for part in earlier.parts:
        following = later.part(part.name)
        assert following is not None, "they have the same parts"
        if part.owner != following.owner:
            return False
        if part.span is None or following.span is None or following.span.start > part.span.end:
            return False
    return True
