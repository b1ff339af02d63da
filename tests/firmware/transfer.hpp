// A host that updates a card's firmware.
#pragma once

#include <algorithm>
#include <cstdint>
#include <span>
#include <vector>

#include "card.hpp"

namespace nearkv::testing {

inline constexpr std::size_t kPartBytes = NKV_MAILBOX_BYTES - 128;

inline Payload part(unsigned action, unsigned slot, std::size_t offset,
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
    const nkv_cci_transfer action =
        at == 0   ? (is_last ? NKV_CCI_TRANSFER_FULL : NKV_CCI_TRANSFER_INITIATE)
        : is_last ? NKV_CCI_TRANSFER_END
                  : NKV_CCI_TRANSFER_CONTINUE;
    const auto status =
        target
            .execute(NKV_CCI_OPCODE_TRANSFER_FIRMWARE,
                     part(action, slot, at, rest.first(std::min(kPartBytes, rest.size()))))
            .status;
    if (is_last || status != NKV_CCI_STATUS_SUCCESS) return status;
  }
}

/// The status of ACTIVATE_FIRMWARE.
template <typename Target>
nkv_cci_status start(Target& target, unsigned slot, bool at_once) {
  const Payload payload = Payload().number(at_once ? 0 : 1, 1).number(slot, 1);
  return target.execute(NKV_CCI_OPCODE_ACTIVATE_FIRMWARE, payload).status;
}

/// How a command ended that may go on in the background: finish() waits for that.
template <typename Finish>
nkv_cci_status ended(nkv_cci_status status, Finish finish) {
  return status == NKV_CCI_STATUS_BACKGROUND_STARTED ? finish() : status;
}

}  // namespace nearkv::testing
