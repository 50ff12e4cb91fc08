"""docstore.node"""
