"""docstore.commands"""
