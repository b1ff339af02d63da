"""What bench/quality.py measures with: attention to part of a cache, by the field's methods."""
