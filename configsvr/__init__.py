"""configsvr"""
