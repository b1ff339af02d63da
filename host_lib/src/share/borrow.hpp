// Memory from neighbours, asked for before one's own has run out.
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "share/extent_space.hpp"
#include "share/mailbox.hpp"
#include "share/share_context.hpp"

namespace nearkv {

/// In extents. `low` of 0: neither asks nor gives back.
struct BorrowLimits {
  std::uint32_t low = 0;   ///< Asks a neighbour when fewer are free.
  std::uint32_t keep = 1;  ///< Never gives away the last ones.
  std::uint32_t high = 8;  ///< Gives back what it owes when more are free.
};

/// The policy; the ledger is the table of owners, which all hosts keep alike. A gift is an entry in
/// the giver's log: it is the receiver's once the entry is published, crash or not.
class Borrow {
 public:
  Borrow(ShareContext* context, ExtentSpace* space, Mailboxes* mailboxes)
      : context_(*context), space_(*space), mailboxes_(*mailboxes) {}

  BorrowLimits limits{};

  /// Asks the neighbour that has most; `free_of` says how many a host has free. At most one request
  /// is out at a time.
  void seek(const std::function<std::uint32_t(std::uint16_t host)>& free_of);

  /// The next TRANSFER entry to write: an answer to a neighbour, or a debt paid back.
  [[nodiscard]] std::optional<nkv_share_entry> next_gift();

  void take(std::uint16_t from, const nkv_share_message& message);

 private:
  struct Request {
    std::uint16_t from = 0;
    std::uint32_t epoch = 0;
    std::uint32_t extents = 0;
  };

  ShareContext& context_;
  ExtentSpace& space_;
  Mailboxes& mailboxes_;
  std::vector<Request> requests_;
  std::uint32_t rounds_to_wait_ = 0;
};

}  // namespace nearkv
