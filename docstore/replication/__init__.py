"""docstore.replication"""
