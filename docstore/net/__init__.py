"""docstore.net"""
