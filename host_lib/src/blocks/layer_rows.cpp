#include "blocks/layer_rows.hpp"

#include <cstring>
#include <numbers>

#include "nkv_abi.h"
#include "page/elements.hpp"

namespace nearkv {

void LayerRows::answer(std::size_t token, std::size_t query_head, std::span<const float> output,
                       float lse2) const {
  std::byte* to = queries_.outputs + token * queries_.output_stride_bytes + query_head * row_bytes_;
  if (dtype_ == NKV_DTYPE_FP32) {
    std::memcpy(to, output.data(), row_bytes_);
  } else {
    for (const float value : output) {
      const std::uint16_t bits = dtype_ == NKV_DTYPE_BF16 ? to_bf16(value) : to_fp16(value);
      std::memcpy(to, &bits, sizeof(bits));
      to += sizeof(bits);
    }
  }
  if (queries_.lse != nullptr) {
    queries_.lse[token * kv_heads_ * group() + query_head] = lse2 * std::numbers::ln2_v<float>;
  }
}

}  // namespace nearkv
