"""NearKV under LMCache: chunks of KV cache are objects of a store, which outlive LMCache.

`nearkv.lmcache.l2_adapter.NearKVL2Adapter` is an L2 adapter of LMCache's server (type "plugin"),
and `nearkv.lmcache.backend.NearKVBackend` a storage plug-in of the LMCache in an engine's process.
"""

import lmcache

from nearkv.versions import check_version

check_version(lmcache, "0.5.6", "nearkv.lmcache")
