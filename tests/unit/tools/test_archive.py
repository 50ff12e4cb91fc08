"""Archives of dumps: what is written is read again, and what is damaged is noticed."""

from __future__ import annotations

import gzip
import io
from typing import Any

import pytest
from bson import encode

from docstore.tools.dumped.archive import ArchiveError, ArchiveReader, ArchiveWriter, Described
from docstore.tools.dumped.targets import ArchiveTarget, Source

DESCRIBED = [
    Described("shop", "orders", {"indexes": [], "type": "collection", "options": {}}, 0),
    Described("shop", "empty", {"type": "collection"}, 0),
    Described("shop", "seen", {"type": "view"}, 0),
]
DOCUMENTS = [encode({"_id": n, "text": "x" * n}) for n in range(4)]


def written() -> bytes:
    file = io.BytesIO()
    writer = ArchiveWriter(file, DESCRIBED, server="6.0.5", tool="1", parallel=4)
    writer.write("shop", "orders", DOCUMENTS[0] + DOCUMENTS[1])
    writer.end("shop", "empty")
    writer.write("shop", "orders", DOCUMENTS[2] + DOCUMENTS[3])
    writer.end("shop", "orders")
    return file.getvalue()


def read(archive: bytes) -> dict[str, Any]:
    reader = ArchiveReader(io.BytesIO(archive))
    assert reader.described == DESCRIBED
    found: dict[str, Any] = {}
    for segment in reader.segments():
        held = found.setdefault(segment.collection, [])
        held += [document.raw for document in segment.documents]
        held += ["end"] * segment.is_last
    return found


def test_what_is_written_is_read() -> None:
    assert read(written()) == {"orders": [*DOCUMENTS, "end"], "empty": ["end"]}


def test_the_bytes_are_those_of_the_format() -> None:
    """The published example of the checksum: `123456789` has 0x995dc9bbdf1939fa, here as a signed number."""
    file = io.BytesIO()
    writer = ArchiveWriter(file, [], server="6.0.5", tool="1", parallel=1)
    header = encode({"concurrent_collections": 1, "version": "0.1", "server_version": "6.0.5", "tool_version": "1"})
    assert file.getvalue() == b"\x6d\xe2\x99\x81" + header + b"\xff\xff\xff\xff"
    file.truncate(0)
    file.seek(0)
    writer.write("d", "c", b"1234")
    writer.write("d", "c", b"56789")
    writer.end("d", "c")
    ends = file.getvalue()[-12:]
    assert ends == (0x995DC9BBDF1939FA - (1 << 64)).to_bytes(8, "little", signed=True)[-7:] + b"\0" + b"\xff" * 4


def test_damage_is_noticed() -> None:
    archive = written()
    for damaged, why in (
        (b"x" + archive[1:], "does not begin"),
        (archive.replace(b"xxx", b"xyx"), "shop.orders is damaged"),
        (archive[:-1], "ends in the middle"),
        (archive[: archive.rfind(b"CRC") - 40], "ends in the middle"),
        (archive.replace(b"0.1", b"0.2"), "version '0.2'"),
        (archive.replace(b"\xff\xff\xff\xff", b"\xff\xff\xff\x7f", 1), "neither the length"),
    ):
        with pytest.raises(ArchiveError, match=why):
            read(damaged)


def test_an_archive_without_its_end_is_noticed() -> None:
    file = io.BytesIO()
    writer = ArchiveWriter(file, DESCRIBED, server="6.0.5", tool="1", parallel=4)
    writer.write("shop", "orders", DOCUMENTS[0])
    writer.end("shop", "orders")
    with pytest.raises(ArchiveError, match=r"ends before shop\.empty"):
        read(file.getvalue())


def test_everything_described_has_an_end() -> None:
    """Other readers wait for that of a view too."""
    file = io.BytesIO()
    target = ArchiveTarget(file, compressed=False)
    sources = [
        Source("shop", name, "shop", name, {"type": kind, "options": {}}, {}, has_documents=kind != "view")
        for name, kind in (("orders", "collection"), ("seen", "view"))
    ]
    target.begin(sources, server="6.0.5", parallel=1, with_oplog=True)
    with target.open(sources[0]) as sink:
        sink.write(DOCUMENTS[0])
    with target.open_oplog() as sink:
        sink.write(DOCUMENTS[1])
    target.close()
    reader = ArchiveReader(io.BytesIO(file.getvalue()))
    described = {(each.database, each.collection) for each in reader.described}
    assert {(each.database, each.collection) for each in reader.segments() if each.is_last} == described


def test_an_archive_that_was_given_up_is_none() -> None:
    for compressed in (False, True):
        file = io.BytesIO()
        target = ArchiveTarget(file, compressed=compressed)
        source = Source("shop", "orders", "shop", "orders", {"options": {}}, {}, has_documents=True)
        target.begin([source], server="6.0.5", parallel=1, with_oplog=False)
        with target.open(source) as sink:
            sink.write(DOCUMENTS[0])
        target.abandon()
        content = gzip.decompress(file.getvalue()) if compressed else file.getvalue()
        with pytest.raises(ArchiveError, match="neither the length"):
            list(ArchiveReader(io.BytesIO(content)).segments())


def test_a_damaged_description_is_noticed() -> None:
    archive = written()
    for damaged in (archive.replace(b'"indexes"', b'"indexas"'), archive.replace(b"seen", b"sean")):
        with pytest.raises(ArchiveError, match="is not what it said"):
            ArchiveReader(io.BytesIO(damaged))


def test_documents_of_what_is_not_described_are_noticed() -> None:
    file = io.BytesIO()
    writer = ArchiveWriter(file, DESCRIBED[:1], server="6.0.5", tool="1", parallel=4)
    writer.write("shop", "others", DOCUMENTS[0])
    with pytest.raises(ArchiveError, match=r"does not describe shop\.others"):
        list(ArchiveReader(io.BytesIO(file.getvalue())).segments())
