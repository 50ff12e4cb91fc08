"""docstore.sharding"""
