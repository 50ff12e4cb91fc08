"""ODMantic over Motor: models with references and embedded ones, queries, sessions with transactions; Motor's files."""

import asyncio
import sys

from motor.motor_asyncio import AsyncIOMotorClient, AsyncIOMotorGridFSBucket
from odmantic import AIOEngine, EmbeddedModel, Field, Model, Reference
from odmantic.exceptions import DuplicateKeyError


class Publisher(Model):
    name: str = Field(unique=True)


class Edition(EmbeddedModel):
    year: int
    pages: int


class Book(Model):
    title: str = Field(index=True)
    publisher: Publisher = Reference()
    editions: list[Edition] = []


async def main(uri: str) -> None:
    client = AsyncIOMotorClient(uri)
    await client.drop_database("odmantic_books")
    engine = AIOEngine(client=client, database="odmantic_books")
    await engine.configure_database([Publisher, Book])
    press = Publisher(name="press")
    await engine.save_all(
        [Book(title=f"book {n}", publisher=press, editions=[Edition(year=2000 + n, pages=n)]) for n in range(10)]
    )
    try:
        await engine.save(Publisher(name="press"))
    except DuplicateKeyError:
        pass
    else:
        raise AssertionError("two publishers of one name")
    found = await engine.find(Book, Book.publisher == press.id, sort=Book.title.desc(), skip=1, limit=3)
    assert [(book.title, book.publisher.name) for book in found] == [(f"book {n}", "press") for n in (8, 7, 6)]
    assert await engine.count(Book, Book.title.match(r"^book [0-4]")) == 5
    late = await engine.find(Book, {"editions.year": {"$gt": 2007}})
    assert sorted(book.editions[0].pages for book in late) == [8, 9]
    book = found[0]
    book.model_update({"title": "changed"})
    await engine.save(book)
    async with engine.transaction() as transaction:
        await transaction.save(Book(title="in a transaction", publisher=press))
        assert await transaction.count(Book) == 11
        await transaction.abort()
    async with engine.transaction() as transaction:
        await transaction.remove(Book, Book.title == "changed")
        await transaction.commit()
    assert await engine.count(Book) == 9
    bucket = AsyncIOMotorGridFSBucket(client.odmantic_books)
    await bucket.upload_from_stream("cover", b"x" * 600_000)
    stream = await bucket.open_download_stream_by_name("cover")
    assert len(await stream.read()) == 600_000
    await client.drop_database("odmantic_books")
    client.close()


asyncio.run(main(sys.argv[1]))
