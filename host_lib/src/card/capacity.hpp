// Dynamic capacity of a card: what its host has of it, and what a fabric manager lends (CXL 3.1,
// sections 8.2.10.9.9 and 7.6.7.6). A card has one mailbox: the host may be its own manager.
#ifndef NEARKV_CARD_CAPACITY_HPP_
#define NEARKV_CARD_CAPACITY_HPP_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "card/mailbox.hpp"

namespace nearkv {

using CapacityTag = std::array<std::byte, 16>;

struct CapacityExtent {
  std::uint64_t address = 0;  ///< In device memory.
  std::uint64_t bytes = 0;
  CapacityTag tag{};
};

struct Capacity {
  std::uint64_t address = 0;  ///< Of the region, in device memory.
  std::uint64_t bytes = 0;
  std::uint64_t block_bytes = 0;        ///< Extents are whole blocks.
  std::uint32_t generation = 0;         ///< Another one: the host has other extents.
  std::vector<CapacityExtent> extents;  ///< That the host has, by address.
};

/// All of it. kUnsupported: the card has none. kBusy: it changed all the while.
[[nodiscard]] Status read_capacity(CardMailbox* mailbox, Capacity* capacity, std::string* reason);

/// As a fabric manager: offers the host so many bytes, in one piece if `is_contiguous`. kBusy: the
/// host has not answered the offer before. kPoolFull: there is not so much that is free and wiped.
[[nodiscard]] Status offer_capacity(CardMailbox* mailbox, std::uint64_t bytes,
                                    const CapacityTag& tag, bool is_contiguous,
                                    std::string* reason);

/// As a fabric manager: asks the host to give an extent back, or takes it at once, with all that it
/// holds. kBadArgument: the host does not have all of it.
[[nodiscard]] Status take_capacity(CardMailbox* mailbox, const CapacityExtent& extent,
                                   bool is_forced, std::string* reason);

enum class CapacityEventKind : std::uint8_t { kOffered, kWanted, kTaken };

/// What a fabric manager did, or wants.
struct CapacityEvent {
  CapacityEventKind kind = CapacityEventKind::kOffered;
  CapacityExtent extent;
};

/// As the host: all events since the last call, which the card forgets. An offer stays until it is
/// answered.
[[nodiscard]] Status take_capacity_events(CardMailbox* mailbox, std::vector<CapacityEvent>* events,
                                          std::string* reason);

/// As the host: accepts these parts of what is offered, and none of the rest. kBadArgument: they
/// are not, and nothing is accepted.
[[nodiscard]] Status answer_offer(CardMailbox* mailbox, const std::vector<CapacityExtent>& accepted,
                                  std::string* reason);

/// As the host: gives an extent back, which the card wipes. kBadArgument: it has not all of it.
[[nodiscard]] Status release_capacity(CardMailbox* mailbox, const CapacityExtent& extent,
                                      std::string* reason);

}  // namespace nearkv

#endif  // NEARKV_CARD_CAPACITY_HPP_
