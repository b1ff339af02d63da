// The lossy codecs INT8, INT4 and FP8 (FORMATS.md).
#ifndef NEARKV_HLS_QUANTISE_HPP_
#define NEARKV_HLS_QUANTISE_HPP_

#include "kernels/types.hpp"

namespace nearkv::kernels {

/// What a block is.
struct QuantShape {
  std::uint8_t codec;  ///< NKV_CODEC_INT8, _INT4 or _FP8
  bool per_channel;    ///< Groups are channels (K), else tokens (V).
  int channels;        ///< A multiple of 16, 128 at most.
};

/// Bytes of an encoded block.
constexpr int quant_bytes(const QuantShape& shape) {
  const int groups = shape.per_channel ? shape.channels : kTokens;
  const int codes = kTokens * shape.channels;
  if (shape.codec == NKV_CODEC_FP8) return groups + codes;
  return 4 * groups + (shape.codec == NKV_CODEC_INT4 ? codes / 2 : codes);
}

}  // namespace nearkv::kernels

/// Encodes 64 rows of bf16 into quant_bytes(shape), the last burst filled up with zeros. False if
/// an element is one that the codec does not take; then `block` holds anything.
extern "C" bool nearkv_quantise(const nearkv::kernels::Burst* rows,
                                nearkv::kernels::QuantShape shape, nearkv::kernels::Burst* block);

/// Decodes quant_bytes(shape) to 64 rows. False if a parameter or code is one that no encoder
/// writes; then `rows` hold anything.
extern "C" bool nearkv_dequantise(const nearkv::kernels::Burst* block,
                                  nearkv::kernels::QuantShape shape, nearkv::kernels::Burst* rows);

#endif  // NEARKV_HLS_QUANTISE_HPP_
