"""docstore.js"""
