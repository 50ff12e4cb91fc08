"""docstore.wire"""
