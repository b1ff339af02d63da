"""NearKV under llama.cpp: states of sequences are objects of a store, shared by their prefixes.

`cache.LlamaNearKVCache` is a cache for llama-cpp-python's Llama; `sequences.SequenceStore` saves
and restores sequences of any context. `export` writes a Llama checkpoint as GGUF, and needs no
llama.cpp, which is why nothing is imported here.
"""
