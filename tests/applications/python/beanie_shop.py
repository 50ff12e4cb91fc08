"""Beanie: documents with links of both directions, fetched by `$lookup`, indexes, aggregation, a transaction."""

import asyncio
import sys
from typing import Annotated

from beanie import BackLink, DeleteRules, Document, Indexed, Link, WriteRules, init_beanie
from pydantic import BaseModel, Field
from pymongo import AsyncMongoClient
from pymongo.errors import DuplicateKeyError


class Maker(Document):
    name: Annotated[str, Indexed(unique=True)]
    products: list[BackLink["Product"]] = Field(default=[], json_schema_extra={"original_field": "maker"})


class Product(Document):
    name: str
    price: float
    stock: int = 10
    maker: Link[Maker]
    parts: list[Link["Product"]] = []


class Order(Document):
    product: Link[Product]
    amount: int


class Spent(BaseModel):
    id: str = Field(alias="_id")
    total: float


Product.model_rebuild()


async def links() -> None:
    acme = Maker(name="acme")
    await acme.insert()
    wheel = Product(name="wheel", price=3, maker=acme)
    cart = Product(name="cart", price=20, maker=acme, parts=[wheel])
    await cart.save(link_rule=WriteRules.WRITE)
    fetched = await Product.find_one(Product.name == "cart", fetch_links=True)
    assert fetched.maker.name == "acme"
    assert [part.name for part in fetched.parts] == ["wheel"]
    by_link = await Product.find(Product.maker.name == "acme", fetch_links=True).sort(+Product.price).to_list()
    assert [product.name for product in by_link] == ["wheel", "cart"]
    by_id = await Product.find(Product.maker.id == acme.id).count()
    assert by_id == 2
    back = await Maker.find_one(Maker.name == "acme", fetch_links=True)
    assert sorted(product.name for product in back.products) == ["cart", "wheel"]
    try:
        await Maker(name="acme").insert()
    except DuplicateKeyError:
        pass
    else:
        raise AssertionError("two makers of one name")


async def aggregation() -> None:
    totals = (
        await Product.find(Product.price > 1)
        .aggregate(
            [{"$group": {"_id": "$maker.$id", "total": {"$sum": "$price"}}}, {"$project": {"_id": "all", "total": 1}}],
            projection_model=Spent,
        )
        .to_list()
    )
    assert [spent.total for spent in totals] == [23]
    assert await Product.avg(Product.price) == 11.5
    await Product.find(Product.price < 10).inc({Product.stock: 5})
    assert await Product.find_one(Product.name == "wheel", Product.stock == 15)
    upserted = await Product.find_one(Product.name == "axle").upsert(
        {"$set": {"price": 7}},
        on_insert=Product(name="axle", price=7, maker=await Maker.find_one()),
    )
    assert upserted.name == "axle"


async def transaction(client: AsyncMongoClient) -> None:
    cart = await Product.find_one(Product.name == "cart")
    async with client.start_session() as session:
        async with await session.start_transaction():
            await Order(product=cart, amount=2).insert(session=session)
            await cart.inc({Product.stock: -2}, session=session)
        try:
            async with await session.start_transaction():
                await Order(product=cart, amount=99).insert(session=session)
                raise RuntimeError("not so many")
        except RuntimeError:
            pass
    assert [order.amount for order in await Order.find_all().to_list()] == [2]
    assert (await Product.get(cart.id)).stock == 8
    cart = await Product.get(cart.id, fetch_links=True)
    await cart.delete(link_rule=DeleteRules.DELETE_LINKS)
    assert await Product.find(Product.name == "wheel").count() == 0


async def main(uri: str) -> None:
    client = AsyncMongoClient(uri)
    await client.drop_database("beanie_shop")
    await init_beanie(client["beanie_shop"], document_models=[Maker, Product, Order])
    await links()
    await aggregation()
    await transaction(client)
    await client.drop_database("beanie_shop")
    await client.close()


asyncio.run(main(sys.argv[1]))
