// Messages between hosts: one ring for each pair, written by the sender alone.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <vector>

#include "nkv_abi.h"
#include "share/share_context.hpp"

namespace nearkv {

/// This host's end of all its mailboxes. Messages between two incarnations arrive once and in
/// order, or, when one of the two ends, not at all. Not thread safe.
class Mailboxes {
 public:
  explicit Mailboxes(ShareContext* context);

  /// Queues a message; it leaves with the next `deliver`. One to this host arrives in the next
  /// `receive`; one to a host that is not live is dropped.
  void send(std::uint16_t to, const nkv_share_message& message);

  /// Writes queued messages where there is room. Ends what the view has ended.
  void deliver();

  /// Calls take(from, message) for each message that has come.
  void receive(const std::function<void(std::uint16_t, const nkv_share_message&)>& take);

  /// Messages of `from`'s present incarnation that have been taken.
  [[nodiscard]] std::uint64_t taken(std::uint16_t from) const { return channels_[from].taken; }

 private:
  struct Channel {
    std::uint32_t peer_epoch = 0;
    std::uint64_t sent = 0;
    std::uint64_t taken = 0;
    std::deque<nkv_share_message> waiting{};
  };

  void follow_view();

  ShareContext& context_;
  std::vector<Channel> channels_;
};

}  // namespace nearkv
