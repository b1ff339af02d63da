// Which queue's register stands at an offset.
#pragma once

#include <cstdint>
#include <optional>

#include "nkv_abi.h"

namespace nearkv {

/// A register of queue `index`: where queue 0 has it.
struct QueueRegister {
  unsigned index = 0;
  std::uint32_t base_offset = 0;
};

/// Nothing if the offset lies outside the queues' blocks, their TOTAL registers apart, which are
/// none of these. Whether a register stands there at all is nkv_is_register()'s to say.
[[nodiscard]] constexpr std::optional<QueueRegister> find_queue_register(std::uint32_t offset) {
  constexpr std::uint32_t kFirst = NKV_REG_SQ_BASE(0);
  constexpr std::uint32_t kStride = NKV_REG_SQ_BASE_STRIDE;
  if (offset < kFirst || offset >= kFirst + NKV_MAX_QUEUES * kStride) return std::nullopt;
  return QueueRegister{.index = (offset - kFirst) / kStride,
                       .base_offset = kFirst + (offset - kFirst) % kStride};
}

}  // namespace nearkv
