"""configsvr.catalog"""
