"""A router, workers of vLLM's and a pool on one machine, under a load of conversations."""


class ClusterError(Exception):
    """Something that the person at the keyboard can mend; the text says how."""
