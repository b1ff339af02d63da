"""Chunks of text in any order, their K and V computed once and apart (CacheBlend).

Example:
    blender = ChunkBlender(model, ObjectStore.create("cpu:?memory=1GiB"))
    blend = blender.blend([instructions, one_document, another], ratio=0.15)
    prompt = torch.cat([blend.tokens, question], 1)
    model.generate(prompt, past_key_values=blend.cache)
"""

from nearkv.blend.blender import Blend, ChunkBlender
from nearkv.blend.model import UnsuitableModel
from nearkv.blend.selection import Rule

__all__ = ["Blend", "ChunkBlender", "Rule", "UnsuitableModel"]
