"""mongos.balancer"""
