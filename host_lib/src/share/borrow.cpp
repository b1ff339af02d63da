#include "share/borrow.hpp"

#include <algorithm>

namespace nearkv {
namespace {

/// An unanswered request is repeated after this many polls, to whoever has most then.
constexpr std::uint32_t kPatience = 8;

}  // namespace

void Borrow::seek(const std::function<std::uint32_t(std::uint16_t host)>& free_of) {
  if (space_.free_extents() >= limits.low) {
    rounds_to_wait_ = 0;
    return;
  }
  if (rounds_to_wait_ > 0) {
    --rounds_to_wait_;
    return;
  }
  std::uint16_t richest = context_.self;
  std::uint32_t most = 0;
  context_.for_each_peer([&](std::uint16_t host, std::uint32_t) {
    const std::uint32_t free = context_.view.hosts[host].is_active ? free_of(host) : 0;
    if (free > most) {
      most = free;
      richest = host;
    }
  });
  if (richest == context_.self) return;
  nkv_share_message message{};
  message.kind = NKV_SHARE_MESSAGE_KIND_ASK;
  message.length = limits.low;
  mailboxes_.send(richest, message);
  rounds_to_wait_ = kPatience;
}

void Borrow::take(std::uint16_t from, const nkv_share_message& message) {
  requests_.push_back({from, context_.view.hosts[from].epoch, message.length});
}

std::optional<nkv_share_entry> Borrow::next_gift() {
  std::erase_if(requests_, [&](const Request& request) {
    return request.extents == 0 || !context_.view.is_live(request.from, request.epoch);
  });
  const std::uint32_t free = space_.free_extents();
  if (!requests_.empty()) {
    Request& request = requests_.front();
    // Who gives away what it needs itself only starts a circle of requests.
    const std::uint32_t own_need = std::max(limits.keep, limits.low);
    std::uint32_t extents = std::min(request.extents, free > own_need ? free - own_need : 0);
    request.extents = 0;
    for (; extents > 0; --extents) {
      if (auto gift = space_.give(extents, request.from)) return gift;
    }
  }
  if (limits.low == 0 || free <= std::max(limits.high, limits.low)) return std::nullopt;
  std::optional<nkv_share_entry> payment;
  context_.for_each_peer([&](std::uint16_t host, std::uint32_t) {
    if (!payment && context_.view.hosts[host].is_active) payment = space_.repay(host);
  });
  return payment;
}

}  // namespace nearkv
