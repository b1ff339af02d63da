"""Keeps a cluster's workers serving: as Ray's actors, on nodes that have a pool.

Needs `nearkv[placement]`: Ray places and finds nodes that failed, etcd has who serves.
"""
