"""Retention of backups: the newest stay, always a sequence without gaps that begins with one with files."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import datetime

from bson.timestamp import Timestamp

from docstore.backup.chain import begins_by
from docstore.backup.manifest import Manifest


def select_retained(manifests: Sequence[Manifest], *, count: int | None, since: datetime | None) -> Sequence[Manifest]:
    """Return the backups to keep; all of them if there are fewer.

    With `count`: the newest `count` with files, and all that follow the first of them. With `since`: those needed for
    the states since that time, including the newest with files before it.
    """
    bases = [index for index, manifest in enumerate(manifests) if manifest.has_files]
    if not bases:
        return manifests
    if count is not None:
        return manifests[bases[-min(count, len(bases))] :]
    assert since is not None, "one of the two is given"
    older = [index for index in bases if _holds_state_of(manifests[index], since)]
    return manifests[older[-1] if older else 0 :]


def _holds_state_of(manifest: Manifest, time: datetime) -> bool:
    """Return True if the files lead to a state at `time` or before: they hold one of the end of the checkpoint, which
    comes after the beginning of the backup.
    """
    if manifest.point is None:
        return datetime.fromisoformat(manifest.ended) <= time
    return begins_by(manifest, Timestamp(int(time.timestamp()), 0))
