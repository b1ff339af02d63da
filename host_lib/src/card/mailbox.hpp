// The firmware of a card, by its mailbox.
#ifndef NEARKV_CARD_MAILBOX_HPP_
#define NEARKV_CARD_MAILBOX_HPP_

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "file_descriptor.hpp"
#include "nearkv/status.hpp"
#include "nkv_card.h"

namespace nearkv {

/// An open device node of a card's. Needs CAP_SYS_RAWIO. A command at a time; others wait.
class CardMailbox {
 public:
  struct Answer {
    nkv_cci_status status = NKV_CCI_STATUS_INTERNAL_ERROR;
    std::vector<std::byte> payload;

    /// A little-endian number of its payload; 0 beyond its end.
    [[nodiscard]] std::uint64_t number(std::size_t at, std::size_t bytes) const;
  };

  /// `name` as find_cards() has it. kNoDevice or kDenied, and why.
  [[nodiscard]] Status open(const std::string& name, std::string* reason);

  /// Waits for the answer; kOk whatever the firmware says. kUnsupported: no firmware runs;
  /// kBusy: it still has another command; kTimeout: it hangs; kNoDevice; kDenied; kBadArgument:
  /// more payload than the mailbox has room for.
  [[nodiscard]] Status execute(std::uint16_t opcode, std::span<const std::byte> payload,
                               Answer* answer, std::string* reason);

  /// As execute(), of a command that has to succeed: kBadArgument if the firmware calls its input
  /// invalid, kUnsupported if it does not know the command, kBusy, kPoolFull, else kIoError.
  [[nodiscard]] Status require(std::uint16_t opcode, std::span<const std::byte> payload,
                               Answer* answer, std::string* reason);

  /// What require() makes of a status.
  [[nodiscard]] Status judge(nkv_cci_status status, std::string* reason) const;

 private:
  std::string name_;
  FileDescriptor file_;
};

/// Appends a little-endian number to a payload.
void append_number(std::vector<std::byte>* payload, std::uint64_t value, std::size_t bytes);

/// What a payload has of a text, which ends with it, or before a zero.
std::string take_text(std::span<const std::byte> bytes);

/// A status in words.
std::string describe(nkv_cci_status status);

}  // namespace nearkv

#endif  // NEARKV_CARD_MAILBOX_HPP_
