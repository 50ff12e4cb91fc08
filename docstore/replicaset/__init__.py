"""docstore.replicaset"""
