// Leases on what is being read, and the acknowledgements that make them binding.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <vector>

#include "nkv_abi.h"
#include "share/object_index.hpp"
#include "share/share_context.hpp"

namespace nearkv {

/// A read in progress.
struct Pin {
  std::uint64_t number = 0;  ///< Names the pin.
  nkv_share_entry object{};
};

/// The reader's end. A pin costs nothing in shared memory while its object lives. When the log ends
/// the object, the pin becomes a lease in this host's table, and only then is the log acknowledged:
/// an owner that has all acknowledgements finds in the tables all reads that go on.
class HostLeases {
 public:
  explicit HostLeases(ShareContext* context);

  /// Writes an empty table, first of all.
  void reset();

  [[nodiscard]] Pin pin(const nkv_share_entry& object);
  void unpin(const Pin& pin);
  [[nodiscard]] bool is_pinned(const Place& place) const;

  /// Brings the table in memory up to date: a lease for each pin whose object is_current denies.
  /// False if the table is full; then nothing may be acknowledged.
  [[nodiscard]] bool publish(const std::function<bool(const nkv_share_entry&)>& is_current);

  /// Tells `owner` what has been taken from it. Writes only what has changed.
  void acknowledge(std::uint16_t owner, std::uint32_t owner_epoch, std::uint64_t log_number,
                   std::uint64_t messages_taken);

 private:
  [[nodiscard]] Place place_of(const nkv_share_entry& object) const;
  void write_lease(std::size_t slot, const Place& place);

  ShareContext& context_;
  std::uint64_t last_pin_ = 0;
  std::map<std::uint64_t, nkv_share_entry> pins_;
  std::vector<Place> table_;
  std::map<std::uint16_t, nkv_share_ack> acks_;
};

/// The owner's end, for the present view.
namespace lease {
/// A word of `reader` about our log and mailbox, not always the last; zeros if it has none for our
/// incarnation.
[[nodiscard]] nkv_share_ack read_ack(const ShareContext& context, std::uint16_t reader);
/// Number up to which all live hosts have taken our log.
[[nodiscard]] std::uint64_t acknowledged_by_all(const ShareContext& context);
/// A live host may still be reading there. Valid once all have acknowledged the end of what stood
/// there.
[[nodiscard]] bool is_leased(const ShareContext& context, const Place& place);
}  // namespace lease

}  // namespace nearkv
