#include "object/extent_allocator.hpp"

#include <algorithm>

namespace nearkv {
namespace {

/// Joins extents that touch; they are in ascending order then.
void merge(std::vector<Extent>* extents) {
  std::ranges::sort(*extents, {}, &Extent::first_grain);
  std::size_t kept = 0;
  for (std::size_t i = 1; i < extents->size(); ++i) {
    Extent& last = (*extents)[kept];
    const Extent& next = (*extents)[i];
    if (last.first_grain + last.grains == next.first_grain) {
      last.grains += next.grains;
    } else {
      (*extents)[++kept] = next;
    }
  }
  extents->resize(std::min(extents->size(), kept + 1));
}

}  // namespace

ExtentAllocator::ExtentAllocator(const Geometry& geometry, SlabSource* source)
    : geometry_(geometry),
      slab_words_((geometry.slab_grains + kWordBits - 1) / kWordBits),
      source_(source),
      // The last word of a slab that does not fill it counts as taken behind the slab's end.
      bits_(std::size_t{geometry.slabs} * slab_words_,
            geometry.slab_grains < kWordBits ? ~std::uint64_t{0} << geometry.slab_grains : 0),
      slabs_(geometry.slabs),
      by_longest_run_(geometry.slab_grains + std::size_t{1}, geometry.slabs),
      by_used_(geometry.slab_grains, geometry.slabs) {}

GrainBitmap ExtentAllocator::bitmap(std::uint32_t slab) {
  return GrainBitmap(std::span(bits_).subspan(std::size_t{slab} * slab_words_, slab_words_));
}

/// Calls visit(part) for the parts of extents that lie in one slab each, until it returns false.
/// False also for what is outside of the data area.
template <typename Visit>
bool ExtentAllocator::for_each_part(std::span<const Extent> extents, Visit visit) const {
  const std::uint64_t end =
      std::uint64_t{geometry_.first_grain} + std::uint64_t{geometry_.slabs} * geometry_.slab_grains;
  for (const Extent& extent : extents) {
    if (extent.grains == 0 || extent.first_grain < geometry_.first_grain ||
        std::uint64_t{extent.first_grain} + extent.grains > end) {
      return false;
    }
    std::uint32_t at = extent.first_grain - geometry_.first_grain;
    for (std::uint32_t left = extent.grains; left > 0;) {
      const std::uint32_t first = at % geometry_.slab_grains;
      const std::uint32_t grains = std::min(left, geometry_.slab_grains - first);
      if (!visit(Part{at / geometry_.slab_grains, first, grains})) return false;
      at += grains;
      left -= grains;
    }
  }
  return true;
}

/// Takes or frees; undoes that if it finds a grain in the wrong state. The lists are not changed.
bool ExtentAllocator::mark(std::span<const Extent> extents, bool taken) {
  const auto change = [&](const Part& part, bool to) {
    unlist(part.slab);
    bitmap(part.slab).set(to, part.first, part.grains);
    const auto grains = static_cast<std::uint16_t>(part.grains);
    std::uint16_t& used = slabs_[part.slab].used;
    used = static_cast<std::uint16_t>(to ? used + grains : used - grains);
    used_grains_ += to ? std::uint64_t{grains} : -std::uint64_t{grains};
  };
  std::size_t changed = 0;
  const bool all = for_each_part(extents, [&](const Part& part) {
    const Slab& slab = slabs_[part.slab];
    const bool right = slab.state != State::kForeign &&
                       (!taken || slab.state == State::kAdopting) &&
                       bitmap(part.slab).all(!taken, part.first, part.grains);
    if (right) {
      change(part, taken);
      ++changed;
    }
    return right;
  });
  if (all) return true;
  (void)for_each_part(extents, [&](const Part& part) {
    if (changed == 0) return false;
    change(part, !taken);
    settle(part.slab);
    --changed;
    return true;
  });
  return false;
}

void ExtentAllocator::unlist(std::uint32_t number) {
  Slab& slab = slabs_[number];
  if (!slab.listed) return;
  by_longest_run_.remove(slab.longest_run, number);
  by_used_.remove(slab.used, number);
  open_free_grains_ -= geometry_.slab_grains - slab.used;
  slab.listed = false;
}

/// Lists a slab whose grains have changed as it is now; an empty one goes back to the source.
void ExtentAllocator::settle(std::uint32_t number) {
  unlist(number);
  Slab& slab = slabs_[number];
  if (slab.state == State::kForeign || slab.state == State::kAdopting) return;
  if (slab.used == 0) {
    slab.state = State::kForeign;
    --owned_slabs_;
    source_->return_slab(number);
    return;
  }
  if (slab.state == State::kClosed || slab.used == geometry_.slab_grains) return;
  slab.longest_run = static_cast<std::uint16_t>(bitmap(number).longest().grains);
  by_longest_run_.insert(slab.longest_run, number);
  by_used_.insert(slab.used, number);
  open_free_grains_ += geometry_.slab_grains - slab.used;
  slab.listed = true;
}

void ExtentAllocator::settle(std::span<const Extent> extents) {
  (void)for_each_part(extents, [&](const Part& part) {
    settle(part.slab);
    return true;
  });
}

void ExtentAllocator::take(std::uint32_t slab, std::uint32_t first, std::uint32_t grains,
                           std::vector<Extent>* extents) {
  extents->push_back({geometry_.first_grain + slab * geometry_.slab_grains + first, grains});
  unlist(slab);
  bitmap(slab).set(true, first, grains);
  slabs_[slab].used = static_cast<std::uint16_t>(slabs_[slab].used + grains);
  used_grains_ += grains;
  settle(slab);
}

/// Begins another slab with up to all of its grains.
bool ExtentAllocator::begin_slab(std::uint32_t grains, std::vector<Extent>* extents) {
  const std::optional<std::uint32_t> slab = source_->take_slab();
  if (!slab) return false;
  slabs_[*slab].state = State::kOpen;
  ++owned_slabs_;
  take(*slab, 0, grains, extents);
  return true;
}

/// Takes what fits best in slabs that are in use, until `extents` has so many. Takes nothing if
/// that is not enough.
bool ExtentAllocator::gather(std::uint32_t grains, std::size_t most_extents,
                             std::vector<Extent>* extents) {
  if (open_free_grains_ < grains) return false;
  const std::size_t before = extents->size();
  while (extents->size() < most_extents) {
    if (const std::optional<std::uint32_t> run = by_longest_run_.least(grains)) {
      const std::uint32_t slab = by_longest_run_.first(*run);
      take(slab, bitmap(slab).fitting(grains).first, grains, extents);
      return true;
    }
    const std::optional<std::uint32_t> run = by_longest_run_.greatest();
    if (!run) break;
    const std::uint32_t slab = by_longest_run_.first(*run);
    take(slab, bitmap(slab).longest().first, *run, extents);
    grains -= *run;
  }
  give_back(extents, before);
  return false;
}

/// Frees all extents but the first `keep`.
void ExtentAllocator::give_back(std::vector<Extent>* extents, std::size_t keep) {
  const std::span<const Extent> freed = std::span(*extents).subspan(keep);
  (void)mark(freed, false);
  settle(freed);
  extents->resize(keep);
}

/// Less than a slab, or what the source had no slabs for.
bool ExtentAllocator::place_rest(std::uint32_t grains, bool any_slab,
                                 std::vector<Extent>* extents) {
  // Pieces cost nothing while they fit in the record, or once that has overflowed anyway.
  const std::size_t cheap =
      extents->size() < kInlineExtents ? kInlineExtents : extents->size() + kInlineExtents;
  if (gather(grains, std::min(cheap, kMostExtents), extents)) return true;
  if (any_slab && grains < geometry_.slab_grains && extents->size() < kMostExtents &&
      begin_slab(grains, extents)) {
    return true;
  }
  extents->reserve(kMostExtents);
  return gather(grains, kMostExtents, extents);
}

bool ExtentAllocator::allocate(std::uint32_t grains, std::vector<Extent>* extents, Reach reach) {
  extents->clear();
  if (grains == 0) return false;
  const bool any_slab = reach == Reach::kAnySlab;
  // Here and below, so that nothing can fail between a grain and its extent.
  extents->reserve(grains / geometry_.slab_grains + 2 * kInlineExtents);
  const std::lock_guard lock(mutex_);
  std::uint32_t left = grains;
  while (any_slab && left >= geometry_.slab_grains) {
    if (!begin_slab(geometry_.slab_grains, extents)) break;
    left -= geometry_.slab_grains;
  }
  merge(extents);
  if (extents->size() <= kMostExtents && (left == 0 || place_rest(left, any_slab, extents))) {
    merge(extents);
    return true;
  }
  give_back(extents, 0);
  return false;
}

bool ExtentAllocator::release(std::span<const Extent> extents) {
  const std::lock_guard lock(mutex_);
  if (!mark(extents, false)) return false;
  settle(extents);
  return true;
}

bool ExtentAllocator::adopt_slab(std::uint32_t slab) {
  const std::lock_guard lock(mutex_);
  if (slab >= geometry_.slabs || slabs_[slab].state != State::kForeign) return false;
  slabs_[slab].state = State::kAdopting;
  ++owned_slabs_;
  return true;
}

bool ExtentAllocator::adopt(std::span<const Extent> extents) {
  const std::lock_guard lock(mutex_);
  return mark(extents, true);
}

void ExtentAllocator::finish_adoption() {
  const std::lock_guard lock(mutex_);
  for (std::uint32_t slab = 0; slab < geometry_.slabs; ++slab) {
    if (slabs_[slab].state != State::kAdopting) continue;
    slabs_[slab].state = State::kOpen;
    settle(slab);
  }
}

ExtentAllocator::Usage ExtentAllocator::usage() const {
  const std::lock_guard lock(mutex_);
  return {owned_slabs_, owned_slabs_ * geometry_.slab_grains, used_grains_};
}

std::optional<std::uint32_t> ExtentAllocator::sparsest_slab(std::uint64_t pending_grains) const {
  const std::lock_guard lock(mutex_);
  const std::optional<std::uint32_t> used = by_used_.least(0);
  if (!used) return std::nullopt;
  const std::uint64_t free_elsewhere = open_free_grains_ - (geometry_.slab_grains - *used);
  return free_elsewhere >= *used + pending_grains ? std::optional(by_used_.first(*used))
                                                  : std::nullopt;
}

std::uint32_t ExtentAllocator::used_grains(std::uint32_t slab) const {
  const std::lock_guard lock(mutex_);
  return slabs_[slab].used;
}

bool ExtentAllocator::close_slab(std::uint32_t slab) {
  const std::lock_guard lock(mutex_);
  if (slab >= geometry_.slabs || slabs_[slab].state != State::kOpen) return false;
  unlist(slab);
  slabs_[slab].state = State::kClosed;
  return true;
}

bool ExtentAllocator::reopen_slab(std::uint32_t slab) {
  const std::lock_guard lock(mutex_);
  if (slab >= geometry_.slabs || slabs_[slab].state != State::kClosed) return false;
  slabs_[slab].state = State::kOpen;
  settle(slab);
  return true;
}

}  // namespace nearkv
