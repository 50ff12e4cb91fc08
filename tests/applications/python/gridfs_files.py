"""GridFS: a bucket of files in chunks, streams, versions, seeking, renaming, deletion; asynchronous."""

import asyncio
import io
import sys

import gridfs
from gridfs.asynchronous import AsyncGridFSBucket
from pymongo import AsyncMongoClient, MongoClient

DATA = bytes(range(256)) * 8192


def threaded(uri: str) -> None:
    with MongoClient(uri) as client:
        client.drop_database("gridfs_files")
        database = client.gridfs_files
        bucket = gridfs.GridFSBucket(database, bucket_name="media", chunk_size_bytes=100_000)
        first = bucket.upload_from_stream("song", io.BytesIO(DATA), metadata={"kind": "music"})
        with bucket.open_upload_stream("song", metadata={"kind": "speech"}) as stream:
            stream.write(b"second ")
            stream.write(b"version")
        assert bucket.open_download_stream_by_name("song").read() == b"second version"
        assert bucket.open_download_stream_by_name("song", revision=0).read() == DATA
        with bucket.open_download_stream(first) as stream:
            stream.seek(1_000_000)
            assert stream.read(16) == DATA[1_000_000:1_000_016]
        assert database.media.chunks.count_documents({"files_id": first}) == 21
        assert [found.length for found in bucket.find({"metadata.kind": "music"})] == [len(DATA)]
        assert {index["name"] for index in database.media.chunks.list_indexes()} == {"_id_", "files_id_1_n_1"}
        bucket.rename(first, "old song")
        assert gridfs.GridFS(database, "media").get_last_version("old song").read() == DATA
        bucket.delete(first)
        assert database.media.chunks.count_documents({}) == 1
        assert gridfs.GridFS(database, "media").list() == ["song"]


async def asynchronous(uri: str) -> None:
    async with AsyncMongoClient(uri) as client:
        bucket = AsyncGridFSBucket(client.gridfs_files)
        names = [f"file{number}" for number in range(8)]
        await asyncio.gather(*(bucket.upload_from_stream(name, DATA) for name in names))
        streams = [await bucket.open_download_stream_by_name(name) for name in names]
        assert all([await stream.read() == DATA for stream in streams])
        await client.drop_database("gridfs_files")


threaded(sys.argv[1])
asyncio.run(asynchronous(sys.argv[1]))
