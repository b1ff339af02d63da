// What a card's firmware found hot while no host watched (see firmware/README.md).
#ifndef NEARKV_CARD_HOTNESS_LIST_HPP_
#define NEARKV_CARD_HOTNESS_LIST_HPP_

#include <string>

#include "card/mailbox.hpp"

namespace nearkv {

/// The last whole epoch's list of a monitor, from the firmware's log. kUnsupported: it has none;
/// else as CardMailbox::require().
[[nodiscard]] Status read_hotness_list(CardMailbox* mailbox, nkv_card_monitor monitor,
                                       nkv_hotness_list* list, std::string* reason);

/// A state in a word: "counting".
[[nodiscard]] std::string name_of(nkv_hotness_state state);

}  // namespace nearkv

#endif  // NEARKV_CARD_HOTNESS_LIST_HPP_
