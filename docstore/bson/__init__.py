"""docstore.bson"""
