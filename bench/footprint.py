"""What the library keeps in memory besides the pool."""

import json
import subprocess
import sys
from pathlib import Path

from bench.data import device_uri
from nearkv.results import Goal, Result

_POOL_MIB = 512


def measure_footprint(uri: str) -> Result:
    """Growth of a fresh process's resident memory over the pool's, after all kinds of work."""
    uri = device_uri(uri, f"{_POOL_MIB}MiB")
    done = subprocess.run(
        [sys.executable, "-m", "bench.footprint", uri], stdout=subprocess.PIPE, check=True
    )
    measured = json.loads(done.stdout)
    return Result(
        name="cpu/resident_beyond_pool",
        value=(measured["after_bytes"] - measured["before_bytes"]) / 2**20 - _POOL_MIB,
        unit="MiB",
        goal=Goal("<", 64),
        device=uri,
        extra=measured | {"pool_mib": _POOL_MIB},
    )


def _work(uri: str) -> dict[str, int]:
    """Fills a pool and uses it; the pool's memory counts whole, touched or not."""
    from bench.data import coded_pool_of
    from bench.data.synthetic import synthetic
    from nearkv.core import AttendMode, Device, Select

    kv = synthetic(131072, 8, groups=2)
    before_bytes = _resident_bytes()
    pool = coded_pool_of(kv, uri)
    for mode in AttendMode:
        pool.attend(1, 0, kv.queries[:1], scale=kv.scale, mode=mode)
    for select in (Select.FULL, Select.STATISTICAL):
        pool.top_k(1, 0, 0, kv.queries[0], 256, scale=kv.scale, mode=select)
    after_bytes = _resident_bytes()
    usage = pool.usage()
    untouched_bytes = _POOL_MIB * 2**20 - usage.page_bytes
    del pool, Device
    return {
        "before_bytes": before_bytes,
        "after_bytes": after_bytes + untouched_bytes,
        "page_bytes": usage.page_bytes,
    }


def _resident_bytes() -> int:
    for line in Path("/proc/self/status").read_text(encoding="utf-8").splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise RuntimeError("/proc/self/status has no VmRSS")


if __name__ == "__main__":
    print(json.dumps(_work(sys.argv[1])))
