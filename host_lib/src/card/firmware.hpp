// What a card's firmware is, and how it fared.
#ifndef NEARKV_CARD_FIRMWARE_HPP_
#define NEARKV_CARD_FIRMWARE_HPP_

#include <string>

#include "card/mailbox.hpp"

namespace nearkv {

struct FirmwareInfo {
  std::string version;
  nkv_firmware_panic panic{};  ///< Its last panic, and how often it started.
};

[[nodiscard]] Status read_firmware_info(CardMailbox* mailbox, FirmwareInfo* info,
                                        std::string* reason);

/// An exception of its processor in words: RISC-V's mcause.
[[nodiscard]] std::string describe_cause(std::uint32_t cause);

}  // namespace nearkv

#endif  // NEARKV_CARD_FIRMWARE_HPP_
