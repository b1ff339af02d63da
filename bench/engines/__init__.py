"""Serving engines that are asked the same requests in turns, each in a process of its own."""
