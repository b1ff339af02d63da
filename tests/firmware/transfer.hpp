// A host that updates a card's firmware.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "card.hpp"

namespace nearkv::testing {

inline constexpr std::uint8_t kFull = 0;
inline constexpr std::uint8_t kInitiate = 1;
inline constexpr std::uint8_t kContinue = 2;
inline constexpr std::uint8_t kEnd = 3;
inline constexpr std::uint8_t kAbort = 4;
inline constexpr std::size_t kPartBytes = NKV_MAILBOX_BYTES - 128;

inline Payload part(std::uint8_t action, unsigned slot, std::size_t offset,
                    std::span<const std::uint8_t> bytes) {
  return Payload()
      .number(action, 1)
      .number(slot, 1)
      .zeros(2)
      .number(offset / 128, 4)
      .zeros(120)
      .raw(bytes);
}

/// Sends a file by TRANSFER_FIRMWARE; the first status that is not a success, or the last.
template <typename Target>
nkv_cci_status transfer(Target& target, std::span<const std::uint8_t> file, unsigned slot) {
  for (std::size_t at = 0;; at += kPartBytes) {
    const auto rest = file.subspan(at);
    const bool is_last = rest.size() <= kPartBytes;
    const std::uint8_t action = at == 0   ? (is_last ? kFull : kInitiate)
                                : is_last ? kEnd
                                          : kContinue;
    const auto status =
        target
            .execute(NKV_CCI_OPCODE_TRANSFER_FIRMWARE,
                     part(action, slot, at, rest.first(std::min(kPartBytes, rest.size()))))
            .status;
    if (is_last || status != NKV_CCI_STATUS_SUCCESS) return status;
  }
}

inline Payload activation(unsigned slot, bool at_once) {
  return Payload().number(at_once ? 0 : 1, 1).number(slot, 1);
}

}  // namespace nearkv::testing
