"""Cycles of the HLS kernels by a small model of their dataflow: no synthesis was run."""
