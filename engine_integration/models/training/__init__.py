"""Trains and measures the small long-context Llama that NearKV ships for demos and tests."""
