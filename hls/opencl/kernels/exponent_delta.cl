// The plain sections of PLANES_LZ4 (FORMATS.md), of blocks of 64 bf16 rows: a work item per channel of
// a block. Planes are a 64-bit word per channel, the order of planes: delta bits, sign, mantissa.
__constant int bit_of_plane[16] = {14, 13, 12, 11, 10, 9, 8, 7, 15, 6, 5, 4, 3, 2, 1, 0};

__kernel void exponent_delta_encode(__global const ushort* rows, __global uchar* references,
                                    __global ulong* planes) {
  const size_t channel = get_global_id(0);
  const size_t channels = get_global_size(0);
  const size_t block = get_global_id(1);
  __global const ushort* of_block = rows + block * NKV_PAGE_TOKENS * channels;
  uint largest = 0;
  for (uint token = 0; token < NKV_PAGE_TOKENS; ++token) {
    const uint exponent = of_block[token * channels + channel] >> 7 & 255;
    if (exponent != 255) largest = max(largest, exponent);
  }
  references[block * channels + channel] = largest;
  for (uint plane = 0; plane < 16; ++plane) {
    ulong bits = 0;
    for (uint token = 0; token < NKV_PAGE_TOKENS; ++token) {
      const uint element = of_block[token * channels + channel];
      const uint delta = (largest - (element >> 7 & 255)) & 255;
      const uint changed = (element & 0x807f) | delta << 7;
      bits |= (ulong)(changed >> bit_of_plane[plane] & 1) << token;
    }
    planes[(block * 16 + plane) * channels + channel] = bits;
  }
}

__kernel void exponent_delta_decode(__global const uchar* references, __global const ulong* planes,
                                    __global ushort* rows) {
  const size_t channel = get_global_id(0);
  const size_t channels = get_global_size(0);
  const size_t block = get_global_id(1);
  const uint reference = references[block * channels + channel];
  for (uint token = 0; token < NKV_PAGE_TOKENS; ++token) {
    uint changed = 0;
    for (uint plane = 0; plane < 16; ++plane) {
      const ulong bits = planes[(block * 16 + plane) * channels + channel];
      changed |= (uint)(bits >> token & 1) << bit_of_plane[plane];
    }
    const uint exponent = (reference - (changed >> 7 & 255)) & 255;
    rows[(block * NKV_PAGE_TOKENS + token) * channels + channel] =
        (changed & 0x807f) | exponent << 7;
  }
}
