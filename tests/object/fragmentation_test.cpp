// How much room is lost between objects in a tier that stays full.
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "object/extent_allocator.hpp"
#include "slab_list.hpp"
#include "support/seed.hpp"

namespace nearkv::test {
namespace {

using Geometry = ExtentAllocator::Geometry;

/// A tier at 90 % for a long time: what comes in makes objects of any age leave.
struct Mix {
  const char* name;
  std::vector<std::uint32_t> sizes_grains;  ///< Equally likely.
};

class FragmentationTest : public testing::TestWithParam<Mix> {
 protected:
  static constexpr Geometry kBig{0, 512, 2048};  // 4 GiB.

  /// Moves what a slab holds into others, as the tier does with records.
  void empty(std::uint32_t slab) {
    ASSERT_TRUE(allocator_.close_slab(slab));
    for (Extents& object : objects_) {
      Extents kept;
      for (const Extent& extent : object) {
        const std::uint32_t end = extent.first_grain + extent.grains;
        for (std::uint32_t at = extent.first_grain; at < end;) {
          const std::uint32_t here = std::min(end, (at / 512 + 1) * 512) - at;
          if (allocator_.slab_of(at) == slab) {
            Extents moved;
            ASSERT_TRUE(allocator_.allocate(here, &moved, ExtentAllocator::Reach::kOwnSlabs));
            ASSERT_TRUE(allocator_.release(Extents{{at, here}}));
            kept.insert(kept.end(), moved.begin(), moved.end());
            moved_grains_ += here;
          } else {
            kept.push_back({at, here});
          }
          at += here;
        }
      }
      object = kept;
    }
  }

  [[nodiscard]] double wasted() const {
    const ExtentAllocator::Usage usage = allocator_.usage();
    return 1 - static_cast<double>(usage.used_grains) / static_cast<double>(usage.owned_grains);
  }

  SlabList slabs_{kBig.slabs, nullptr};
  ExtentAllocator allocator_{kBig, &slabs_};
  std::vector<Extents> objects_;
  std::uint64_t moved_grains_ = 0;
};

TEST_P(FragmentationTest, StaysBelowFivePercentWithFewExtents) {
  Random random = case_random(0);
  const std::vector<std::uint32_t>& sizes = GetParam().sizes_grains;
  constexpr std::uint32_t kAll = kBig.slabs * kBig.slab_grains;
  double worst = 0;
  double sum_wasted = 0;
  std::uint64_t extents_sum = 0;
  std::uint64_t overflowing = 0;
  constexpr std::uint64_t kWarmUp = 10'000;
  constexpr std::uint64_t kSteps = 30'000;
  for (std::uint64_t step = 0; step < kWarmUp + kSteps; ++step) {
    const std::uint32_t grains = sizes[random() % sizes.size()];
    while (allocator_.usage().used_grains + grains > std::uint64_t{kAll} * 9 / 10) {
      std::swap(objects_[random() % objects_.size()], objects_.back());
      ASSERT_TRUE(allocator_.release(objects_.back()));
      objects_.pop_back();
    }
    Extents extents;
    ASSERT_TRUE(allocator_.allocate(grains, &extents));
    objects_.push_back(extents);
    if (step < kWarmUp) continue;
    worst = std::max(worst, wasted());
    sum_wasted += wasted();
    extents_sum += extents.size();
    overflowing += extents.size() > ExtentAllocator::kInlineExtents ? 1 : 0;
  }
  const auto steps = static_cast<double>(kSteps);
  RecordProperty("wasted_mean", std::to_string(sum_wasted / steps));
  RecordProperty("wasted_worst", std::to_string(worst));
  RecordProperty("extents_mean", std::to_string(static_cast<double>(extents_sum) / steps));
  RecordProperty("overflowing", std::to_string(static_cast<double>(overflowing) / steps));
  EXPECT_LT(worst, 0.05);
  const std::uint64_t slabs_before = allocator_.usage().owned_slabs;
  const double before = wasted();
  int emptied = 0;
  for (; emptied < 20; ++emptied) {
    const std::optional<std::uint32_t> slab = allocator_.sparsest_slab();
    if (!slab) break;
    empty(*slab);
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(allocator_.usage().owned_slabs + static_cast<std::uint64_t>(emptied), slabs_before);
  EXPECT_LE(wasted(), before);
}

INSTANTIATE_TEST_SUITE_P(, FragmentationTest,
                         testing::Values(Mix{"AllSizes",
                                             {1, 2, 3, 5, 16, 17, 64, 100, 256, 300, 511, 512, 513,
                                              520, 1024, 1100, 2048, 4100, 16384}},
                                         Mix{"JustAboveASlab", {513}},
                                         Mix{"ThirdsOfASlab", {130, 172}},
                                         Mix{"SmallAndLarge", {1, 1, 1, 1, 1, 1, 1, 1, 700, 3000}},
                                         Mix{"HalfMebibytesAndHeaders", {129}},
                                         Mix{"BlocksOfTraces", {16384, 9216, 4096, 2305}}),
                         [](const auto& tested) { return std::string(tested.param.name); });

}  // namespace
}  // namespace nearkv::test
