"""Ranks in processes: what `bench/parallel.py` asks them, and a model of links between 64."""
