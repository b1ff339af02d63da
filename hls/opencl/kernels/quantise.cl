// INT8, INT4 and FP8 (FORMATS.md) of blocks of 64 bf16 rows, one after the other. A group is a channel
// where `per_channel` is set, else a token. `is_good` holds ones at first; a block that holds what its
// codec does not take, or no encoder writes, makes a zero of its own, and the rest of it is anything.
#define BF16_LIMIT ((127 + 126) << 7)  // INT8 and INT4 take magnitudes below this pattern.
#define BF16_INFINITY 0x7f80
#define BF16_LEAST 0x80
#define FP8_SCALE_BIAS 135

typedef struct {
  int codec;
  int per_channel;
  uint channels;
} quant_shape;

quant_shape shape_of(int codec, int per_channel, uint channels) {
  quant_shape shape;
  shape.codec = codec;
  shape.per_channel = per_channel;
  shape.channels = channels;
  return shape;
}

uint group_bytes(quant_shape shape) { return shape.codec == NKV_CODEC_FP8 ? 1 : 4; }

uint code_row_bytes(quant_shape shape) {
  return shape.codec == NKV_CODEC_INT4 ? shape.channels / 2 : shape.channels;
}

uint codes_at(quant_shape shape) {
  return group_bytes(shape) * (shape.per_channel ? shape.channels : NKV_PAGE_TOKENS);
}

size_t quant_block_bytes(quant_shape shape) {
  return codes_at(shape) + NKV_PAGE_TOKENS * code_row_bytes(shape);
}

int max_code(quant_shape shape) { return shape.codec == NKV_CODEC_INT4 ? 15 : 255; }

void store_u16(__global uchar* bytes, uint at, uint value) {
  bytes[at] = value;
  bytes[at + 1] = value >> 8;
}

// Patterns in the order of their values, as two's complement numbers. Its own inverse.
short ordered(ushort bits) {
  const short key = (short)bits;
  return key ^ (key >> 15 & 0x7fff);
}

// Subnormals become +0.
uint flushed(uint bits) { return (bits & BF16_INFINITY) == 0 ? 0 : bits; }

// What an encoder divides by: (high - low) / codes, rounded up to bf16.
uint integer_scale(uint low, uint high, int codes) {
  real minus_low = real_of_bf16(low);
  minus_low.negative ^= 1;
  const real span = rounded(sum_of(real_of_bf16(high), minus_low), 53);
  if (span.magnitude == 0) return 0;
  const real raised = with_62_bits(span);
  const ulong quotient = raised.magnitude / codes | (raised.magnitude % codes != 0);
  const int excess = bits_of(quotient) - 8;
  real scale;
  scale.negative = 0;
  scale.magnitude = (quotient + (1ul << excess) - 1) >> excess;
  scale.power = raised.power + excess;
  return max((uint)bf16_of(scale), (uint)BF16_LEAST);
}

uint fp8_scale(uint low, uint high) {
  const uint greatest = max(low & 0x7fff, high & 0x7fff);
  if (greatest == 0) return 0;
  const int carry = (greatest & 127) > 0x60 ? 1 : 0;  // 448 = 1.75 * 2^8.
  return (int)(greatest >> 7) - 127 - 8 + carry + FP8_SCALE_BIAS;
}

// min(floor((element - zero) * (1 / scale) + 1/2), codes), each step in binary32.
uint integer_code(uint element, uint zero, uint scale, int codes) {
  if (scale == 0) return 0;
  real half_unit, product;
  real minus_zero = real_of_bf16(zero);
  minus_zero.negative ^= 1;
  const real above = rounded(sum_of(real_of_bf16(element), minus_zero), 24);
  const real divisor = real_of_bf16(scale);
  real reciprocal;
  reciprocal.negative = 0;
  reciprocal.magnitude = (1ul << 62) / divisor.magnitude | ((1ul << 62) % divisor.magnitude != 0);
  reciprocal.power = -62 - divisor.power;
  reciprocal = rounded(reciprocal, 24);
  product.negative = 0;
  product.magnitude = above.magnitude * reciprocal.magnitude;
  product.power = above.power + reciprocal.power;
  half_unit.negative = 0;
  half_unit.magnitude = 1;
  half_unit.power = -1;
  const real raised = rounded(sum_of(rounded(product, 24), half_unit), 24);
  const int shift = -raised.power;
  const ulong code = shift >= 0 ? raised.magnitude >> min(shift, 63) : raised.magnitude << -shift;
  return min(code, (ulong)codes);
}

// An element as E4M3 against 2^x, to nearest even.
uint fp8_code(uint element, uint scale) {
  const int exponent = element >> 7 & 255;
  const int mantissa = element & 127;
  if (exponent == 0) return element >> 8 & 128;
  const int field = exponent - 127 - ((int)scale - FP8_SCALE_BIAS) + 7;
  const int right = field >= 1 ? 4 : min(5 - field, 10);
  const int wide = field >= 1 ? field << 7 | mantissa : 128 | mantissa;
  const int magnitude = (wide + (1 << (right - 1)) - 1 + (wide >> right & 1)) >> right;
  return (element >> 8 & 128) | magnitude;
}

// zero + code * scale, rounded to binary32 after each step and to bf16 at last.
uint integer_value(uint code, uint zero, uint scale) {
  real product = real_of_bf16(scale);
  product.magnitude *= code;
  if (product.magnitude != 0 && product.power + bits_of(product.magnitude) > 128) {
    return BF16_INFINITY;
  }
  return bf16_of(rounded(sum_of(real_of_bf16(zero), product), 24));
}

// code * 2^x; below 2^-126 zero, above the greatest finite number that.
uint fp8_value(uint code, uint scale) {
  const int field = code >> 3 & 15;
  const uint significand = (code & 7) | (field != 0 ? 8 : 0);
  const uint sign = (code & 128) << 8;
  const int zeros = (int)clz(significand) - 28;
  const int exponent = 127 - 7 + max(field, 1) - zeros + (int)scale - FP8_SCALE_BIAS;
  if (significand == 0 || exponent < 1) return sign;
  return sign | min(exponent << 7 | (int)(significand << zeros & 7) << 4, BF16_INFINITY - 1);
}

// The parameters of each group: a work item per group of a block.
__kernel void quantise_groups(__global const ushort* rows, int codec, int per_channel,
                              uint channels, __global uchar* blocks, __global int* is_good) {
  const quant_shape shape = shape_of(codec, per_channel, channels);
  const size_t group = get_global_id(0);
  const size_t block = get_global_id(1);
  __global const ushort* elements = rows + block * NKV_PAGE_TOKENS * channels;
  elements += per_channel ? group : group * channels;
  const uint count = per_channel ? NKV_PAGE_TOKENS : channels;
  const uint stride = per_channel ? channels : 1;
  const uint limit = codec == NKV_CODEC_FP8 ? BF16_INFINITY : BF16_LIMIT;
  short low = 32767;
  short high = -32768;
  int all_good = 1;
  for (uint i = 0; i < count; ++i) {
    const ushort element = elements[i * stride];
    low = min(low, ordered(element));
    high = max(high, ordered(element));
    all_good &= (element & 0x7fff) < limit;
  }
  if (!all_good) atomic_xchg(is_good + block, 0);
  const uint least = flushed((ushort)ordered((ushort)low));
  const uint greatest = flushed((ushort)ordered((ushort)high));
  __global uchar* stored = blocks + block * quant_block_bytes(shape) + group * group_bytes(shape);
  if (codec == NKV_CODEC_FP8) {
    stored[0] = fp8_scale(least, greatest);
  } else {
    store_u16(stored, 0, least);
    store_u16(stored, 2, integer_scale(least, greatest, max_code(shape)));
  }
}

uint code_of(uint element, __global const uchar* group, quant_shape shape) {
  if (shape.codec == NKV_CODEC_FP8) return fp8_code(element, group[0]);
  return integer_code(element, load_u16(group, 0), load_u16(group, 2), max_code(shape));
}

// Codes behind the parameters that quantise_groups left: a work item per byte of a token's codes, of
// INT4 channel c and c + channels / 2, and per token of all blocks.
__kernel void quantise_codes(__global const ushort* rows, int codec, int per_channel,
                             uint channels, __global uchar* blocks) {
  const quant_shape shape = shape_of(codec, per_channel, channels);
  const uint at = get_global_id(0);
  const size_t token = get_global_id(1);
  const uint of_block = token % NKV_PAGE_TOKENS;
  __global uchar* block = blocks + token / NKV_PAGE_TOKENS * quant_block_bytes(shape);
  __global const ushort* row = rows + token * channels;
  const uint row_bytes = code_row_bytes(shape);
  uint code = code_of(row[at], block + (per_channel ? at : of_block) * group_bytes(shape), shape);
  if (codec == NKV_CODEC_INT4) {
    const uint upper = at + row_bytes;
    code |= code_of(row[upper], block + (per_channel ? upper : of_block) * 4, shape) << 4;
  }
  block[codes_at(shape) + of_block * row_bytes + at] = code;
}

// A work item per channel, and per token of all blocks.
__kernel void dequantise(__global const uchar* blocks, int codec, int per_channel, uint channels,
                         __global ushort* rows, __global int* is_good) {
  const quant_shape shape = shape_of(codec, per_channel, channels);
  const uint channel = get_global_id(0);
  const size_t token = get_global_id(1);
  const uint of_block = token % NKV_PAGE_TOKENS;
  const size_t number = token / NKV_PAGE_TOKENS;
  __global const uchar* block = blocks + number * quant_block_bytes(shape);
  __global const uchar* group = block + (per_channel ? channel : of_block) * group_bytes(shape);
  const uint row_bytes = code_row_bytes(shape);
  const uint byte = block[codes_at(shape) + of_block * row_bytes + channel % row_bytes];
  uint value;
  int good;
  if (codec == NKV_CODEC_FP8) {
    good = (byte & 127) != 127;
    value = fp8_value(byte, group[0]);
  } else {
    const uint zero = load_u16(group, 0);
    const uint scale = load_u16(group, 2);
    const uint nibble = channel >= row_bytes ? byte >> 4 : byte & 15;
    good = (zero & 0x7fff) < BF16_LIMIT && scale <= BF16_LIMIT;
    value = integer_value(codec == NKV_CODEC_INT4 ? nibble : byte, zero, scale);
  }
  if (!good) atomic_xchg(is_good + number, 0);
  rows[token * channels + channel] = value;
}
