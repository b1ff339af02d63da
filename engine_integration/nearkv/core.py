"""Devices, pools and codecs: host_lib's public interface, with the contract's names.

device = Device("cpu:?memory=256MiB")         # or, in memory that the engine has,
device = Device("cpu:", memory=tensor)
pool = Pool.create(device, layers=4, kv_heads=2, head_dim=128, codes=True)
pool.create_sequence(1)
pool.append(1, 0, keys, values)               # bf16 [kv_heads, 64 n, 128]
output, lse = pool.attend(1, 0, queries, scale=128**-0.5, mode=AttendMode.BOUNDED)
"""

try:
    from _nearkv import (
        BlockBatch,
        BlockCache,
        BlockCodes,
        BlockLayout,
        ColdPages,
        Device,
        Error,
        NearStats,
        Pool,
        PoolUsage,
        codec_supports,
        decode_block,
        encode_block,
    )
except ImportError as error:
    raise ImportError(f"the extension of NearKV is missing ({error}); ./nearkv build") from error
from nkv_abi import (
    MAX_GROUP,
    MAX_HEAD_DIM,
    MAX_TOP_K,
    PAGE_TOKENS,
    AttendMode,
    Codec,
    Dtype,
    RowForm,
    Select,
    Status,
    Tensor,
)

__all__ = [
    "MAX_GROUP",
    "MAX_HEAD_DIM",
    "MAX_TOP_K",
    "PAGE_TOKENS",
    "AttendMode",
    "BlockBatch",
    "BlockCache",
    "BlockCodes",
    "BlockLayout",
    "Codec",
    "ColdPages",
    "Device",
    "Dtype",
    "Error",
    "NearStats",
    "Pool",
    "PoolUsage",
    "RowForm",
    "Select",
    "Status",
    "Tensor",
    "codec_supports",
    "decode_block",
    "encode_block",
]
