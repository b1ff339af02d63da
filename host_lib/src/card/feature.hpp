// One feature of a card's firmware, as bytes (CXL 3.1, section 8.2.10.6).
#pragma once

#include <cstddef>
#include <span>
#include <string>
#include <vector>

#include "card/mailbox.hpp"

namespace nearkv {

struct Feature {
  std::vector<std::byte> uuid;
  std::size_t set_bytes = 0;     ///< What write_feature() takes.
  std::vector<std::byte> value;  ///< As it was when it was read.
};

/// kUnsupported: the firmware does not have it.
[[nodiscard]] Status read_feature(CardMailbox* mailbox, nkv_card_feature which, Feature* feature,
                                  std::string* reason);

/// Sets all of one that was read. kBadArgument: it has a value that it may not have.
[[nodiscard]] Status write_feature(CardMailbox* mailbox, const Feature& feature,
                                   std::span<const std::byte> value, std::string* reason);

}  // namespace nearkv
