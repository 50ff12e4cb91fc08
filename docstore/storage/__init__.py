"""docstore.storage"""
