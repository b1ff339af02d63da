"""NearKV under SGLang: pages of HiCache's host pools are objects of a store that outlives it.

`NearKVHiCache` is a storage backend for HiCache; SGLang imports it by the names of the README's
example.
"""

from nearkv.sglang.storage import NearKVHiCache

__all__ = ["NearKVHiCache"]
