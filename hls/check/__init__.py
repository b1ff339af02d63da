"""A static check of the HLS kernels: what C++ synthesis refuses, found without a tool for it."""
