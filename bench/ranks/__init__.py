"""What ranks do in `bench/parallel.py`, and what a model of links makes of 64 of them."""
