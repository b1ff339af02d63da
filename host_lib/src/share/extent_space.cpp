#include "share/extent_space.hpp"

#include <algorithm>

namespace nearkv {
namespace {

/// A successor's change outweighs one that its predecessor had written but not published.
constexpr std::uint32_t kInheritance = 2;
constexpr std::uint32_t kGift = 1;

nkv_share_entry transfer_entry(std::uint32_t extent, std::uint16_t owner, std::uint32_t changes) {
  nkv_share_entry entry{};
  entry.kind = NKV_SHARE_ENTRY_KIND_TRANSFER;
  entry.host = owner;
  entry.first_extent = extent;
  entry.length = 1;
  entry.version = changes;
  return entry;
}

}  // namespace

ExtentSpace::ExtentSpace(ShareContext* context)
    : context_(*context), extents_(context->region.extents()) {
  for (std::uint32_t i = 0; i < extents_.size(); ++i) {
    extents_[i].owner = context_.region.first_owner(i);
    if (extents_[i].owner == context_.self) extents_[i].use = Use::kUnsorted;
  }
}

void ExtentSpace::mark(const Place& place, Use use) {
  for (std::uint32_t i = 0; i < place.extents; ++i) extents_[place.first + i].use = use;
}

void ExtentSpace::apply(const nkv_share_entry& entry, const LogName& source) {
  for (std::uint32_t i = 0; i < entry.length; ++i) {
    Extent& extent = extents_[entry.first_extent + i];
    if (entry.version == extent.changes && entry.host == extent.owner) extent.source = source;
    if (entry.version <= extent.changes) continue;
    const bool is_new = extent.owner != context_.self;
    extent.owner = entry.host;
    extent.changes = entry.version;
    extent.source = source;
    if (entry.host != context_.self) {
      extent.use = Use::kForeign;
    } else if (is_new) {
      const bool is_gift = is_sorted_ && source.host != context_.self;
      extent.use = is_gift ? Use::kFree : Use::kUnsorted;
    }
  }
}

bool ExtentSpace::is_current(const nkv_share_entry& entry) const {
  for (std::uint32_t i = 0; i < entry.length; ++i) {
    if (extents_[entry.first_extent + i].changes == entry.version) return true;
  }
  return false;
}

std::vector<nkv_share_entry> ExtentSpace::inherit(const std::vector<LogName>& lasting,
                                                  const std::vector<bool>& heirless) const {
  std::vector<nkv_share_entry> entries;
  for (std::uint32_t i = 0; i < extents_.size(); ++i) {
    const Extent& extent = extents_[i];
    std::uint16_t owner = extent.owner;
    std::uint32_t changes = extent.changes;
    if (heirless[owner]) {
      owner = context_.self;
      changes += kInheritance;
    } else if (changes == 0 || std::ranges::find(lasting, extent.source) != lasting.end()) {
      continue;
    }
    if (!entries.empty() && entries.back().host == owner && entries.back().version == changes &&
        entries.back().first_extent + entries.back().length == i) {
      ++entries.back().length;
    } else {
      entries.push_back(transfer_entry(i, owner, changes));
    }
  }
  return entries;
}

std::optional<Place> ExtentSpace::find_free(
    std::uint32_t extents, const std::function<bool(std::uint32_t)>& is_wanted) const {
  std::uint32_t run = 0;
  for (std::uint32_t i = 0; i < extents_.size(); ++i) {
    run = extents_[i].use == Use::kFree && is_wanted(i) ? run + 1 : 0;
    if (run == extents) return Place{i + 1 - extents, extents};
  }
  return std::nullopt;
}

std::optional<Place> ExtentSpace::allocate(std::uint32_t extents) {
  const std::optional<Place> place = find_free(extents, [](std::uint32_t) { return true; });
  if (place) mark(*place, Use::kUsed);
  return place;
}

void ExtentSpace::release(const Place& place) { mark(place, Use::kFree); }

void ExtentSpace::retire(const Place& place, const Grace& grace) {
  mark(place, Use::kWaiting);
  waiting_.push_back({place, grace});
}

void ExtentSpace::sort(const std::function<bool(std::uint32_t extent)>& is_used,
                       const Grace& grace) {
  for (std::uint32_t i = 0; i < extents_.size(); ++i) {
    if (extents_[i].use != Use::kUnsorted) continue;
    if (is_used(i)) {
      extents_[i].use = Use::kUsed;
    } else {
      retire({i, 1}, grace);
    }
  }
  is_sorted_ = true;
}

void ExtentSpace::reclaim(const std::function<bool(const Grace&)>& is_over,
                          const std::function<bool(const Place&)>& is_leased) {
  std::erase_if(waiting_, [&](const Waiting& waiting) {
    // In this order: a lease is written before the acknowledgement.
    if (!is_over(waiting.grace) || is_leased(waiting.place)) return false;
    mark(waiting.place, Use::kFree);
    return true;
  });
}

nkv_share_entry ExtentSpace::transfer(const Place& place, std::uint16_t to) const {
  std::uint32_t changes = 0;
  for (std::uint32_t i = 0; i < place.extents; ++i) {
    changes = std::max(changes, extents_[place.first + i].changes);
  }
  nkv_share_entry entry = transfer_entry(place.first, to, changes + kGift);
  entry.length = place.extents;
  return entry;
}

std::optional<nkv_share_entry> ExtentSpace::give(std::uint32_t extents, std::uint16_t to) {
  const std::optional<Place> place = find_free(extents, [](std::uint32_t) { return true; });
  if (!place) return std::nullopt;
  mark(*place, Use::kForeign);
  return transfer(*place, to);
}

std::optional<nkv_share_entry> ExtentSpace::repay(std::uint16_t to) {
  const std::optional<Place> place =
      find_free(1, [&](std::uint32_t extent) { return context_.region.first_owner(extent) == to; });
  if (!place) return std::nullopt;
  mark(*place, Use::kForeign);
  return transfer(*place, to);
}

void ExtentSpace::take_back(const nkv_share_entry& gift) {
  mark({gift.first_extent, gift.length}, Use::kFree);
}

std::uint32_t ExtentSpace::free_extents() const {
  return static_cast<std::uint32_t>(
      std::ranges::count(extents_, Use::kFree, [](const Extent& extent) { return extent.use; }));
}

std::uint32_t ExtentSpace::free_debt(std::uint16_t lender) const {
  std::uint32_t count = 0;
  for (std::uint32_t i = 0; i < extents_.size(); ++i) {
    count += extents_[i].use == Use::kFree && context_.region.first_owner(i) == lender ? 1 : 0;
  }
  return count;
}

std::uint32_t ExtentSpace::debt(std::uint16_t owner, std::uint16_t lender) const {
  std::uint32_t count = 0;
  for (std::uint32_t i = 0; i < extents_.size(); ++i) {
    count += extents_[i].owner == owner && context_.region.first_owner(i) == lender ? 1 : 0;
  }
  return count;
}

}  // namespace nearkv
