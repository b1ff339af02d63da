// Who owns the region's extents, and what this host does with its own.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include "nkv_abi.h"
#include "share/host_log.hpp"
#include "share/share_context.hpp"

namespace nearkv {

/// What must have happened before extents are written again.
struct Grace {
  std::uint64_t log_number = 0;     ///< All live hosts have taken our log up to here,
  std::uint64_t view_revision = 0;  ///< act on this view or a newer one,
  bool needs_quiet = false;         ///< and no dead incarnation can still change memory.
};

/// The table of owners, merged from all logs, and the free, used and waiting extents of this host.
class ExtentSpace {
 public:
  explicit ExtentSpace(ShareContext* context);

  /// Takes a TRANSFER entry of `source`'s log. A gift to this host is free at once, because the
  /// giver has waited for its grace; not so what comes from a past incarnation, which `sort` sorts.
  void apply(const nkv_share_entry& entry, const LogName& source);

  /// True while a TRANSFER entry says what no later one has changed.
  [[nodiscard]] bool is_current(const nkv_share_entry& entry) const;

  /// The entries that say who owns what no `lasting` log tells, with the extents of `heirless`
  /// hosts passing to this one. For whoever takes the other logs over.
  [[nodiscard]] std::vector<nkv_share_entry> inherit(const std::vector<LogName>& lasting,
                                                     const std::vector<bool>& heirless) const;

  /// Consecutive free extents, used from now on.
  [[nodiscard]] std::optional<Place> allocate(std::uint32_t extents);
  /// Used extents that nobody has seen become free again.
  void release(const Place& place);
  /// Used extents become free after their grace.
  void retire(const Place& place, const Grace& grace);
  /// Sorts the extents that a past incarnation or a dead host has left to this one: used are those
  /// that is_used says, the rest become free after `grace`. From now on gifts are free at once.
  void sort(const std::function<bool(std::uint32_t extent)>& is_used, const Grace& grace);
  /// Frees what has had its grace and is_leased denies.
  void reclaim(const std::function<bool(const Grace&)>& is_over,
               const std::function<bool(const Place&)>& is_leased);

  /// Free extents to give away, marked as `to`'s; the entry to write in the log.
  [[nodiscard]] std::optional<nkv_share_entry> give(std::uint32_t extents, std::uint16_t to);
  /// Takes a gift back whose entry could not be written.
  void take_back(const nkv_share_entry& gift);

  [[nodiscard]] std::uint32_t free_extents() const;
  /// Free extents that `lender` owned first.
  [[nodiscard]] std::uint32_t free_debt(std::uint16_t lender) const;
  /// Extents that `owner` holds and that `lender` owned first.
  [[nodiscard]] std::uint32_t debt(std::uint16_t owner, std::uint16_t lender) const;
  [[nodiscard]] std::uint16_t owner(std::uint32_t extent) const { return extents_[extent].owner; }

  /// As give, of extents that `to` owned first.
  [[nodiscard]] std::optional<nkv_share_entry> repay(std::uint16_t to);

 private:
  enum class Use : std::uint8_t { kForeign, kUnsorted, kFree, kUsed, kWaiting };
  struct Extent {
    std::uint16_t owner = 0;
    std::uint32_t changes = 0;  ///< Of owner.
    LogName source{};           ///< Of the last change.
    Use use = Use::kForeign;
  };
  struct Waiting {
    Place place;
    Grace grace;
  };

  void mark(const Place& place, Use use);
  [[nodiscard]] std::optional<Place> find_free(
      std::uint32_t extents, const std::function<bool(std::uint32_t)>& is_wanted) const;
  [[nodiscard]] nkv_share_entry transfer(const Place& place, std::uint16_t to) const;

  ShareContext& context_;
  std::vector<Extent> extents_;
  std::vector<Waiting> waiting_;
  bool is_sorted_ = false;
};

}  // namespace nearkv
