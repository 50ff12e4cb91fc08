"""docstore.collection"""
