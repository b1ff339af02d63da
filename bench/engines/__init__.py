"""Serving engines and their environments, a daemon, and requests that benches ask them in turns."""
