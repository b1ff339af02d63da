"""The structures of nearkv_cuda.h, field by field."""

from ctypes import (
    Structure,
    c_char,
    c_float,
    c_int64,
    c_uint32,
    c_uint64,
    c_void_p,
)


class Info(Structure):
    """As the header has it."""

    _fields_ = (
        ("name", c_char * 256),
        ("architecture", c_uint32),
        ("multiprocessors", c_uint32),
        ("shared_bytes", c_uint64),
    )


class Strides(Structure):
    """As the header has it."""

    _fields_ = (("batch", c_int64), ("head", c_int64), ("row", c_int64))


class Attend(Structure):
    """As the header has it."""

    _fields_ = (
        ("query", c_void_p),
        ("key", c_void_p),
        ("value", c_void_p),
        ("first", c_void_p),
        ("end", c_void_p),
        ("output", c_void_p),
        ("lse", c_void_p),
        ("query_strides", Strides),
        ("key_strides", Strides),
        ("value_strides", Strides),
        ("batch", c_uint32),
        ("kv_heads", c_uint32),
        ("group", c_uint32),
        ("tokens", c_uint32),
        ("head_dim", c_uint32),
        ("value_dim", c_uint32),
        ("splits", c_uint32),
        ("scale", c_float),
        ("soft_cap", c_float),
        ("dtype", c_uint32),
    )


class Parts(Structure):
    """As the header has it."""

    _fields_ = (("output", c_void_p), ("lse", c_void_p), ("count", c_uint32))


MERGE_SOURCES = 4


class Merge(Structure):
    """As the header has it."""

    _fields_ = (
        ("source", Parts * MERGE_SOURCES),
        ("output", c_void_p),
        ("lse", c_void_p),
        ("rows", c_uint64),
        ("value_dim", c_uint32),
        ("sources", c_uint32),
    )


# In the header's order, as nearkv_cuda_structures() tells their sizes.
ALL = (Info, Strides, Attend, Parts, Merge)
