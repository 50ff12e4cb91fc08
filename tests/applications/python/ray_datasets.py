"""Ray: a dataset read in parallel with a pipeline, and written."""

import sys

import ray
from pymongo import MongoClient

URI = sys.argv[1]
with MongoClient(URI) as client:
    client.drop_database("ray_datasets")
    client.ray_datasets.create_collection("doubled")
    client.ray_datasets.orders.insert_many(
        {"_id": number, "who": f"user{number % 5}", "amount": number} for number in range(3000)
    )
ray.init(num_cpus=2, include_dashboard=False, log_to_driver=False, object_store_memory=100 * 1024 * 1024)
orders = ray.data.read_mongo(
    uri=URI, database="ray_datasets", collection="orders", pipeline=[{"$match": {"amount": {"$gte": 1000}}}],
    override_num_blocks=4,
)  # fmt: skip
assert orders.count() == 2000
assert orders.sum("amount") == sum(range(1000, 3000))
doubled = orders.map_batches(lambda batch: {"of": batch["_id"], "twice": batch["amount"] * 2})
doubled.write_mongo(uri=URI, database="ray_datasets", collection="doubled")
ray.shutdown()
with MongoClient(URI) as client:
    assert client.ray_datasets.doubled.count_documents({}) == 2000
    assert client.ray_datasets.doubled.find_one({"of": 1500})["twice"] == 3000
    client.drop_database("ray_datasets")
