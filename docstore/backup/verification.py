"""Verification of a backup: restores it to a temporary directory and checks the result.

Files and logs are checked against their checksums. Each collection's documents are checked against its indexes and
counters, and against the figures that the backup has recorded at its point, if any.
"""

from __future__ import annotations

import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from docstore.backup.chain import Chain
from docstore.backup.directories import copy_files, opened, replay
from docstore.backup.repository import Repository
from docstore.collection.digest import Digest
from docstore.collection.store import Store


@dataclass(slots=True)
class Findings:
    """The result. `errors`: sentences; `compared`: the number of collections compared with recorded figures."""

    collections: int = 0
    documents: int = 0
    compared: int = 0
    entries: int = 0
    errors: list[str] = field(default_factory=list)


def verify(repository: Repository, chain: Chain, temporary: Path | None) -> Findings:
    """Errors: Damaged, OSError."""
    findings = Findings()
    for backup in chain.backups:
        repository.check(backup)
    for part in chain.base.parts:
        with tempfile.TemporaryDirectory(prefix="docstore-verify-", dir=temporary) as name:
            directory = Path(name)
            copy_files(repository, chain, part.name, directory)
            with opened(directory) as store:
                findings.entries += replay(repository, chain, part.name, store)
                at_the_point = chain.backups[-1].part(part.name)
                recorded = None if at_the_point is None else at_the_point.collections
                _look(store, part.name, recorded if chain.point == chain.backups[-1].point else None, findings)
    return findings


def _look(store: Store, part: str, recorded: object, findings: Findings) -> None:
    remaining = dict(recorded) if isinstance(recorded, dict) else {}
    for namespace in sorted(store.namespaces()):
        collection = store.collection(namespace)
        assert collection is not None, "it was listed"
        report = store.validate(collection)
        findings.errors += [f"{part}: {error}" for error in report.errors]
        findings.collections += 1
        findings.documents += report.count
        record = remaining.pop(namespace, None)
        if record is None:
            continue
        digest = Digest(store, collection, store.engine)
        for _ in digest.steps():
            pass
        findings.compared += 1
        if (digest.count, digest.text) != tuple(record):
            findings.errors.append(
                f"{part}: {namespace} has {digest.count} documents with the digest {digest.text}, and had {record[0]} "
                f"with {record[1]}"
            )
    findings.errors += [f"{part}: {namespace} is missing" for namespace in remaining]
