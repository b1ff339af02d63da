// New firmware for a card: CXL 3.1, section 8.2.10.3.
#ifndef NEARKV_CARD_FIRMWARE_UPDATE_HPP_
#define NEARKV_CARD_FIRMWARE_UPDATE_HPP_

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "card/mailbox.hpp"

namespace nearkv {

/// What a card has of images.
struct FirmwareSlots {
  unsigned active = 0;                 ///< Whose image runs; 0: what is built in.
  unsigned staged = 0;                 ///< Whose starts with the next reset; 0: the same.
  std::vector<std::string> revisions;  ///< Of slot 1, 2, ...; empty without an image.
};

/// kUnsupported: the card has no flash memory.
[[nodiscard]] Status read_firmware_slots(CardMailbox* mailbox, FirmwareSlots* slots,
                                         std::string* reason);

/// Told the bytes that the card has.
using FirmwareProgress = std::function<void(std::size_t bytes)>;

/// Gives the card an image with its signature, which it checks and keeps in `*slot`, the one that
/// does not run. kBadArgument: the card does not trust it. What runs goes on.
[[nodiscard]] Status transfer_firmware(CardMailbox* mailbox, std::span<const std::byte> image,
                                       const FirmwareProgress& progress, unsigned* slot,
                                       std::string* reason);

/// Has the image of a slot start: now, or with the card's next reset. Now: returns once it answers.
/// kIoError: it does not, and what ran before runs again.
[[nodiscard]] Status activate_firmware(CardMailbox* mailbox, unsigned slot, bool at_once,
                                       std::string* reason);

}  // namespace nearkv

#endif  // NEARKV_CARD_FIRMWARE_UPDATE_HPP_
