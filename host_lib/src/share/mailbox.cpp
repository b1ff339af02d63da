#include "share/mailbox.hpp"

#include "share/host_lease.hpp"
#include "share/record.hpp"

namespace nearkv {

Mailboxes::Mailboxes(ShareContext* context)
    : context_(*context), channels_(context->region.hosts()) {}

void Mailboxes::follow_view() {
  for (std::uint16_t host = 0; host < context_.region.hosts(); ++host) {
    const HostRecord& record = context_.view.hosts[host];
    const std::uint32_t epoch = record.is_live ? record.epoch : 0;
    if (channels_[host].peer_epoch != epoch) {
      channels_[host] = {};
      channels_[host].peer_epoch = epoch;
    }
  }
}

void Mailboxes::send(std::uint16_t to, const nkv_share_message& message) {
  follow_view();
  if (channels_[to].peer_epoch != 0) channels_[to].waiting.push_back(message);
}

void Mailboxes::deliver() {
  follow_view();
  context_.for_each_peer([&](std::uint16_t host, std::uint32_t epoch) {
    Channel& channel = channels_[host];
    if (channel.waiting.empty()) return;
    const std::uint64_t read = lease::read_ack(context_, host).messages_taken;
    while (!channel.waiting.empty() && channel.sent < read + context_.region.messages()) {
      nkv_share_message message = channel.waiting.front();
      channel.waiting.pop_front();
      message.number = ++channel.sent;
      message.from_epoch = context_.epoch;
      message.to_epoch = epoch;
      write_record(context_.memory, context_.region.message_at(context_.self, host, message.number),
                   message);
    }
  });
}

void Mailboxes::receive(const std::function<void(std::uint16_t, const nkv_share_message&)>& take) {
  follow_view();
  Channel& own = channels_[context_.self];
  while (!own.waiting.empty()) {
    const nkv_share_message message = own.waiting.front();
    own.waiting.pop_front();
    take(context_.self, message);
  }
  context_.for_each_peer([&](std::uint16_t host, std::uint32_t epoch) {
    nkv_share_message message{};
    while (peek_record(context_.memory,
                       context_.region.message_at(host, context_.self, channels_[host].taken + 1),
                       &message) &&
           message.from_epoch == epoch && message.to_epoch == context_.epoch &&
           message.number == channels_[host].taken + 1) {
      ++channels_[host].taken;
      take(host, message);
    }
  });
}

}  // namespace nearkv
