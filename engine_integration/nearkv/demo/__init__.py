"""The demo: a long document through a model whose KV cache lives in a NearKV device."""


class DemoError(Exception):
    """Something that the person at the keyboard can mend; the text says how."""
