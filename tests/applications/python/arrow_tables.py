"""PyMongoArrow: tables of Arrow, pandas and NumPy from finds and pipelines, with schemas, and written back."""

import sys
from datetime import datetime

import pandas
import pyarrow
from bson import Decimal128, ObjectId
from pymongo import MongoClient
from pymongoarrow.api import (
    Schema,
    aggregate_arrow_all,
    aggregate_pandas_all,
    find_arrow_all,
    find_numpy_all,
    find_pandas_all,
    write,
)

client = MongoClient(sys.argv[1])
client.drop_database("arrow_tables")
database = client.arrow_tables
database.orders.insert_many(
    {"_id": number, "who": f"user{number % 7}", "amount": number * 1.5, "at": datetime(2024, 1, 1 + number % 28),
     "ref": ObjectId(f"{number:024x}"), "lines": [{"sku": "a", "n": number}], "tax": Decimal128("0.19")}
    for number in range(5000)
)  # fmt: skip
schema = Schema({"_id": pyarrow.int64(), "amount": float, "at": datetime, "who": str})
table = find_arrow_all(database.orders, {"_id": {"$gte": 1000}}, schema=schema, sort=[("_id", 1)])
assert (table.num_rows, table["_id"][0].as_py(), table["amount"][0].as_py()) == (4000, 1000, 1500.0)
guessed = find_arrow_all(database.orders, {"_id": {"$lt": 10}})
assert set(guessed.column_names) == {"_id", "who", "amount", "at", "ref", "lines", "tax"}
frame = find_pandas_all(database.orders, {"who": "user3"}, schema=schema)
assert len(frame) == 714
assert frame["amount"].sum() == sum(number * 1.5 for number in range(5000) if number % 7 == 3)
arrays = find_numpy_all(database.orders, {}, schema=Schema({"amount": float}))
assert arrays["amount"].shape == (5000,)
pipeline = [{"$group": {"_id": "$who", "total": {"$sum": "$amount"}}}, {"$sort": {"_id": 1}}]
totals = aggregate_arrow_all(database.orders, pipeline, schema=Schema({"_id": str, "total": float}))
assert totals["_id"].to_pylist() == [f"user{number}" for number in range(7)]
assert len(aggregate_pandas_all(database.orders, [{"$sample": {"size": 20}}])) == 20
write(database.copied, table)
assert database.copied.count_documents({}) == 4000
write(database.frames, pandas.DataFrame({"x": [1, 2, 3], "y": ["a", "b", "c"]}))
assert database.frames.distinct("y") == ["a", "b", "c"]
assert database.copied.find_one({"_id": 1234}) == {
    "_id": 1234, "amount": 1851.0, "at": datetime(2024, 1, 3), "who": "user2"
}  # fmt: skip
client.drop_database("arrow_tables")
