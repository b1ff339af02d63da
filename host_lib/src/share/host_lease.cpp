#include "share/host_lease.hpp"

#include <algorithm>

#include "share/record.hpp"

namespace nearkv {

HostLeases::HostLeases(ShareContext* context)
    : context_(*context), table_(context->region.leases()) {}

void HostLeases::reset() {
  for (std::size_t slot = 0; slot < table_.size(); ++slot) write_lease(slot, {});
}

Place HostLeases::place_of(const nkv_share_entry& object) const {
  return {object.first_extent, context_.region.extents_for(object.length)};
}

Pin HostLeases::pin(const nkv_share_entry& object) {
  pins_.emplace(++last_pin_, object);
  return {last_pin_, object};
}

void HostLeases::unpin(const Pin& pin) { pins_.erase(pin.number); }

bool HostLeases::is_pinned(const Place& place) const {
  return std::ranges::any_of(pins_,
                             [&](const auto& pin) { return place_of(pin.second).overlaps(place); });
}

void HostLeases::write_lease(std::size_t slot, const Place& place) {
  nkv_share_lease record{};
  record.epoch = context_.epoch;
  record.first_extent = place.first;
  record.extents = place.extents;
  write_record(context_.memory,
               context_.region.lease_at(context_.self, static_cast<std::uint16_t>(slot)), record);
  table_[slot] = place;
}

bool HostLeases::publish(const std::function<bool(const nkv_share_entry&)>& is_current) {
  std::vector<Place> wanted;
  for (const auto& [number, object] : pins_) {
    const Place place = place_of(object);
    if (!is_current(object) && std::ranges::find(wanted, place) == wanted.end()) {
      wanted.push_back(place);
    }
  }
  for (std::size_t slot = 0; slot < table_.size(); ++slot) {
    const auto found = std::ranges::find(wanted, table_[slot]);
    if (found != wanted.end()) {
      wanted.erase(found);
    } else if (table_[slot].extents != 0) {
      write_lease(slot, {});
    }
  }
  bool has_new = false;
  for (std::size_t slot = 0; slot < table_.size() && !wanted.empty(); ++slot) {
    if (table_[slot].extents != 0) continue;
    write_lease(slot, wanted.back());
    wanted.pop_back();
    has_new = true;
  }
  // Whoever sees the acknowledgement must find the lease.
  if (has_new) context_.memory.fence();
  return wanted.empty();
}

void HostLeases::acknowledge(std::uint16_t owner, std::uint32_t owner_epoch,
                             std::uint64_t log_number, std::uint64_t messages_taken) {
  nkv_share_ack ack{};
  ack.reader_epoch = context_.epoch;
  ack.owner_epoch = owner_epoch;
  ack.log_number = log_number;
  ack.messages_taken = messages_taken;
  ack.crc = record_crc(ack);
  nkv_share_ack& last = acks_[owner];
  if (ack.crc == last.crc) return;
  write_record(context_.memory, context_.region.ack_at(context_.self, owner), ack);
  last = ack;
}

namespace lease {

nkv_share_ack read_ack(const ShareContext& context, std::uint16_t reader) {
  nkv_share_ack ack{};
  if (!peek_record(context.memory, context.region.ack_at(reader, context.self), &ack) ||
      ack.reader_epoch != context.view.hosts[reader].epoch || ack.owner_epoch != context.epoch) {
    return {};
  }
  return ack;
}

std::uint64_t acknowledged_by_all(const ShareContext& context) {
  std::uint64_t least = ~std::uint64_t{0};
  context.for_each_peer([&](std::uint16_t host, std::uint32_t) {
    least = std::min(least, read_ack(context, host).log_number);
  });
  return least;
}

bool is_leased(const ShareContext& context, const Place& place) {
  bool leased = false;
  context.for_each_peer([&](std::uint16_t host, std::uint32_t epoch) {
    for (std::uint16_t slot = 0; slot < context.region.leases() && !leased; ++slot) {
      nkv_share_lease record{};
      // One that is being written may be for this place.
      leased = !read_record(context.memory, context.region.lease_at(host, slot), &record) ||
               record.epoch != epoch || Place{record.first_extent, record.extents}.overlaps(place);
    }
  });
  return leased;
}

}  // namespace lease
}  // namespace nearkv
