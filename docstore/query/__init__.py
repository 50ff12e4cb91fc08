"""docstore.query"""
