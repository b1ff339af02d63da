"""Measures the models that ship here: bits per byte, and recall of lines planted in a text."""
