// The digest of a page's keys: one quantisation step and base per channel (section 2.1).
#ifndef NEARKV_MODEL_DIGEST_HPP_
#define NEARKV_MODEL_DIGEST_HPP_

#include <cstdint>
#include <span>
#include <vector>

#include "nkv_abi.h"
#include "number.hpp"

namespace nearkv::model {

/// A channel's cells: code c stands for keys in [4·base + c, 4·base + c + 1] · m · 2^exponent.
struct ChannelCells {
  int base = 0;      ///< −128..127.
  int m = 8;         ///< 8..15.
  int exponent = 0;  ///< s = k_step_exponent − delta.
};

/// The digest and the codes of a page.
struct CodedKeys {
  std::vector<uint16_t> digest;  ///< As stored, one per channel.
  int16_t step_exponent = 0;     ///< k_step_exponent.
  std::vector<uint8_t> codes;    ///< [PAGE_TOKENS][head_dim]
};

/// Quantises keys [PAGE_TOKENS][head_dim]; elements that are not finite count as zero.
CodedKeys encode_digest(std::span<const Number> keys, uint32_t head_dim);

/// One channel of a stored digest.
ChannelCells decode_digest(uint16_t stored, int step_exponent);

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_DIGEST_HPP_
