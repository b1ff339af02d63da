// Room for objects of any size in the slabs of a pool.
#pragma once

#include <cstddef>
#include <cstdint>
#include <mutex>
#include <optional>
#include <span>
#include <vector>

#include "object/bucket_lists.hpp"
#include "object/grain_bitmap.hpp"

namespace nearkv {

/// Consecutive grains, counted from the start of the pool.
struct Extent {
  std::uint32_t first_grain = 0;
  std::uint32_t grains = 0;

  friend bool operator==(const Extent&, const Extent&) = default;
};

/// Where slabs come from. Called under the allocator's lock; must be thread-safe against its other
/// users and must not call the allocator.
class SlabSource {
 public:
  SlabSource() = default;
  SlabSource(const SlabSource&) = delete;
  SlabSource& operator=(const SlabSource&) = delete;
  virtual ~SlabSource() = default;

  /// A slab for the caller alone, or none.
  [[nodiscard]] virtual std::optional<std::uint32_t> take_slab() = 0;
  virtual void return_slab(std::uint32_t slab) = 0;
};

/// Cuts slabs into extents. Large objects take whole slabs; what is left of them, and small
/// objects, go where they fit best in slabs that are in use already, in a few pieces if need be,
/// before another slab is begun. A slab goes back as soon as it is empty. What is taken is kept
/// here alone: after a restart it is adopted from the objects' records.
///
/// Memory: 86 bytes per slab of 512 grains, used or not. No call searches the slabs.
///
/// Thread safety: every call from any thread; one lock.
class ExtentAllocator {
 public:
  static constexpr std::size_t kMostExtents = 511;  ///< Of one object.
  static constexpr std::size_t kInlineExtents = 5;  ///< That an object's record holds.

  struct Geometry {
    std::uint32_t first_grain = 0;  ///< Where slab 0 begins.
    std::uint32_t slab_grains = 0;  ///< A power of two, at most 32768.
    std::uint32_t slabs = 0;
  };

  /// May allocate take slabs from the source? To move objects out of a slab it should not.
  enum class Reach : std::uint8_t { kAnySlab, kOwnSlabs };

  /// Owns no slab yet. `source` must outlive this; slabs that are still owned at the end are not
  /// returned to it, since they hold objects.
  ExtentAllocator(const Geometry& geometry, SlabSource* source);

  /// Room for `grains` in as few extents as the rules above give, ascending. False, and nothing
  /// taken, if there are not enough free grains in kMostExtents pieces.
  [[nodiscard]] bool allocate(std::uint32_t grains, std::vector<Extent>* extents,
                              Reach reach = Reach::kAnySlab);

  /// Frees extents, or parts of them. False, and nothing freed, if a grain of them is not taken.
  [[nodiscard]] bool release(std::span<const Extent> extents);

  /// A restart: first the slabs that belong to objects, then the extents of every object, then
  /// finish_adoption; allocate and release only after that.
  ///
  /// False: there is no such slab, or it is owned already.
  [[nodiscard]] bool adopt_slab(std::uint32_t slab);
  /// False, and nothing taken, if a grain is taken already or in no adopted slab.
  [[nodiscard]] bool adopt(std::span<const Extent> extents);
  /// Returns slabs that have stayed empty to the source.
  void finish_adoption();

  struct Usage {
    std::uint64_t owned_slabs = 0;
    std::uint64_t owned_grains = 0;
    std::uint64_t used_grains = 0;
  };
  [[nodiscard]] Usage usage() const;

  /// The slab with the fewest taken grains of those that are open, if the others have room for
  /// them and for `pending_grains` of closed ones: moving its objects frees a slab. None: there is
  /// nothing to gain.
  [[nodiscard]] std::optional<std::uint32_t> sparsest_slab(std::uint64_t pending_grains = 0) const;
  /// Of one slab.
  [[nodiscard]] std::uint32_t used_grains(std::uint32_t slab) const;
  /// Keeps allocate out of a slab while it is being emptied; its last release returns it to the
  /// source. False: it is not open.
  [[nodiscard]] bool close_slab(std::uint32_t slab);
  /// Undoes close_slab. False: the slab is not closed, because it is gone perhaps.
  [[nodiscard]] bool reopen_slab(std::uint32_t slab);
  /// The slab of a grain of the data area.
  [[nodiscard]] std::uint32_t slab_of(std::uint32_t grain) const {
    return (grain - geometry_.first_grain) / geometry_.slab_grains;
  }

 private:
  enum class State : std::uint8_t { kForeign, kAdopting, kOpen, kClosed };

  struct Slab {
    std::uint16_t used = 0;
    std::uint16_t longest_run = 0;
    State state = State::kForeign;
    bool listed = false;  ///< In the lists, by the two numbers above.
  };
  struct Part {
    std::uint32_t slab = 0;
    std::uint32_t first = 0;
    std::uint32_t grains = 0;
  };

  [[nodiscard]] GrainBitmap bitmap(std::uint32_t slab);
  template <typename Visit>
  bool for_each_part(std::span<const Extent> extents, Visit visit) const;
  [[nodiscard]] bool mark(std::span<const Extent> extents, bool taken);
  void settle(std::uint32_t slab);
  void settle(std::span<const Extent> extents);
  void unlist(std::uint32_t slab);
  void take(std::uint32_t slab, std::uint32_t first, std::uint32_t grains,
            std::vector<Extent>* extents);
  [[nodiscard]] bool begin_slab(std::uint32_t grains, std::vector<Extent>* extents);
  [[nodiscard]] bool gather(std::uint32_t grains, std::size_t most_extents,
                            std::vector<Extent>* extents);
  [[nodiscard]] bool place_rest(std::uint32_t grains, bool any_slab, std::vector<Extent>* extents);
  void give_back(std::vector<Extent>* extents, std::size_t keep);

  Geometry geometry_;
  std::uint32_t slab_words_;
  SlabSource* source_;
  mutable std::mutex mutex_;
  std::vector<std::uint64_t> bits_;
  std::vector<Slab> slabs_;
  BucketLists by_longest_run_;  ///< Open slabs with free grains.
  BucketLists by_used_;         ///< The same.
  std::uint64_t owned_slabs_ = 0;
  std::uint64_t used_grains_ = 0;
  std::uint64_t open_free_grains_ = 0;  ///< In the lists.
};

}  // namespace nearkv
