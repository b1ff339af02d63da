// The extent allocator against one flag per grain.
#include "object/extent_allocator.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "slab_list.hpp"
#include "support/seed.hpp"

namespace nearkv::test {
namespace {

using Geometry = ExtentAllocator::Geometry;

/// One flag per grain of the data area.
class Grains {
 public:
  explicit Grains(const Geometry& geometry)
      : geometry_(geometry), taken_(std::size_t{geometry.slabs} * geometry.slab_grains) {}

  /// True if all were in the other state; changes nothing otherwise.
  bool change(const Extents& extents, bool taken) {
    std::vector<bool> changed = taken_;
    for (const Extent& extent : extents) {
      if (extent.grains == 0) return false;
      for (std::uint64_t i = 0; i < extent.grains; ++i) {
        const std::uint64_t grain = extent.first_grain + i;
        if (grain < geometry_.first_grain) return false;
        const std::uint64_t at = grain - geometry_.first_grain;
        if (at >= changed.size() || changed[at] == taken) return false;
        changed[at] = taken;
      }
    }
    taken_ = changed;
    return true;
  }

  [[nodiscard]] std::uint32_t used() const { return used(taken_.begin(), taken_.end()); }
  [[nodiscard]] std::uint32_t used(std::uint32_t slab) const {
    const auto begin = taken_.begin() + std::ptrdiff_t{slab} * geometry_.slab_grains;
    return used(begin, begin + geometry_.slab_grains);
  }

 private:
  template <typename Iterator>
  [[nodiscard]] static std::uint32_t used(Iterator begin, Iterator end) {
    return static_cast<std::uint32_t>(std::count(begin, end, true));
  }

  Geometry geometry_;
  std::vector<bool> taken_;
};

std::uint32_t sum(const Extents& extents) {
  std::uint32_t grains = 0;
  for (const Extent& extent : extents) grains += extent.grains;
  return grains;
}

bool ascending_and_apart(const Extents& extents) {
  for (std::size_t i = 1; i < extents.size(); ++i) {
    if (extents[i - 1].first_grain + extents[i - 1].grains >= extents[i].first_grain) return false;
  }
  return true;
}

void expect_equal(const ExtentAllocator& allocator, const Grains& grains, const SlabList& slabs,
                  const Geometry& geometry) {
  std::size_t in_use = 0;
  for (std::uint32_t slab = 0; slab < geometry.slabs; ++slab) {
    ASSERT_EQ(slabs.holds(slab), grains.used(slab) == 0) << "slab " << slab;
    in_use += grains.used(slab) > 0 ? 1 : 0;
  }
  ASSERT_EQ(allocator.usage().owned_slabs, in_use);
  ASSERT_EQ(allocator.usage().owned_grains, in_use * geometry.slab_grains);
  ASSERT_EQ(allocator.usage().used_grains, grains.used());
}

class ExtentAllocatorTest : public testing::TestWithParam<Geometry> {};

TEST_P(ExtentAllocatorTest, GivesEveryGrainToOneObjectAtATime) {
  const Geometry geometry = GetParam();
  const std::uint32_t all = geometry.slabs * geometry.slab_grains;
  for (std::uint64_t number = 0; number < 4; ++number) {
    SCOPED_TRACE(case_name(number));
    Random random = case_random(number);
    SlabList slabs(geometry.slabs, number % 2 == 0 ? &random : nullptr);
    ExtentAllocator allocator(geometry, &slabs);
    Grains grains(geometry);
    std::vector<Extents> objects;
    std::set<std::uint32_t> closed;
    for (int step = 0; step < 1500; ++step) {
      const std::uint32_t kind = pick(random, 0, 99);
      if (kind < 50) {
        const std::uint32_t most = kind < 10 ? all / 2 : geometry.slab_grains;
        const std::uint32_t wanted = pick(random, 1, kind < 25 ? 4 : most);
        const auto reach =
            kind % 5 == 0 ? ExtentAllocator::Reach::kOwnSlabs : ExtentAllocator::Reach::kAnySlab;
        Extents extents;
        const std::uint64_t slabs_before = allocator.usage().owned_slabs;
        if (allocator.allocate(wanted, &extents, reach)) {
          ASSERT_EQ(sum(extents), wanted);
          ASSERT_TRUE(ascending_and_apart(extents));
          ASSERT_LE(extents.size(), ExtentAllocator::kMostExtents);
          ASSERT_TRUE(grains.change(extents, true));
          for (const Extent& extent : extents) {
            ASSERT_FALSE(closed.contains(allocator.slab_of(extent.first_grain)));
          }
          objects.push_back(extents);
          if (reach == ExtentAllocator::Reach::kOwnSlabs) {
            ASSERT_EQ(allocator.usage().owned_slabs, slabs_before);
          }
        } else {
          ASSERT_TRUE(extents.empty());
          if (reach == ExtentAllocator::Reach::kAnySlab && closed.empty()) {
            ASSERT_GT(wanted, all - grains.used());  // Few grains, so never too many extents.
          }
        }
      } else if (kind < 94 && !objects.empty()) {
        std::swap(objects[random() % objects.size()], objects.back());
        ASSERT_TRUE(allocator.release(objects.back()));
        ASSERT_TRUE(grains.change(objects.back(), false));
        ASSERT_FALSE(allocator.release(objects.back()));
        objects.pop_back();
        std::erase_if(closed, [&](std::uint32_t slab) { return grains.used(slab) == 0; });
      } else if (kind < 96) {
        const std::uint32_t slab = pick(random, 0, geometry.slabs);
        const bool open = slab < geometry.slabs && grains.used(slab) > 0 && !closed.contains(slab);
        ASSERT_EQ(allocator.close_slab(slab), open);
        if (open) closed.insert(slab);
      } else {
        const std::uint32_t slab = pick(random, 0, geometry.slabs);
        ASSERT_EQ(allocator.reopen_slab(slab), closed.erase(slab) == 1);
      }
      expect_equal(allocator, grains, slabs, geometry);
      if (HasFatalFailure()) FAIL() << "step " << step;
    }
    for (const Extents& object : objects) ASSERT_TRUE(allocator.release(object));
    EXPECT_EQ(slabs.count(), geometry.slabs);
  }
}

TEST_P(ExtentAllocatorTest, UsesTheLastFreeGrain) {
  const Geometry geometry = GetParam();
  SlabList slabs(geometry.slabs, nullptr);
  ExtentAllocator allocator(geometry, &slabs);
  const std::uint32_t all = geometry.slabs * geometry.slab_grains;
  std::vector<Extents> singles(all);
  for (Extents& single : singles) ASSERT_TRUE(allocator.allocate(1, &single));
  Extents extents;
  EXPECT_FALSE(allocator.allocate(1, &extents));
  // Every third grain comes free, so that no two touch.
  std::uint32_t freed = 0;
  for (Extents& single : singles) {
    if (single[0].first_grain % 3 != 0) continue;
    ASSERT_TRUE(allocator.release(single));
    ++freed;
  }
  const std::uint32_t most = std::uint32_t{ExtentAllocator::kMostExtents};
  EXPECT_FALSE(allocator.allocate(std::min(freed, most) + 1, &extents));
  EXPECT_TRUE(allocator.allocate(std::min(freed, most), &extents));
  EXPECT_EQ(extents.size(), std::min(freed, most));
}

TEST_P(ExtentAllocatorTest, AdoptsWhatItGaveAndRefusesEverythingElse) {
  const Geometry geometry = GetParam();
  for (std::uint64_t number = 0; number < 20; ++number) {
    SCOPED_TRACE(case_name(number));
    Random random = case_random(number);
    SlabList slabs(geometry.slabs, nullptr);
    ExtentAllocator allocator(geometry, &slabs);
    Grains grains(geometry);
    std::set<std::uint32_t> adopted;
    for (std::uint32_t slab = 0; slab < geometry.slabs; ++slab) {
      if (random() % 4 == 0) continue;
      adopted.insert(slab);
      slabs.remove(slab);
      ASSERT_TRUE(allocator.adopt_slab(slab));
      ASSERT_FALSE(allocator.adopt_slab(slab));
    }
    ASSERT_FALSE(allocator.adopt_slab(geometry.slabs));
    const auto in_adopted = [&](const Extents& extents) {
      for (const Extent& extent : extents) {
        for (std::uint32_t i = 0; i < extent.grains; ++i) {
          if (!adopted.contains(allocator.slab_of(extent.first_grain + i))) return false;
        }
      }
      return true;
    };
    std::size_t taken = 0;
    for (int step = 0; step < 200; ++step) {
      Extents extents(pick(random, 1, 3));
      for (Extent& extent : extents) {
        extent.first_grain =
            geometry.first_grain + pick(random, 0, geometry.slabs * geometry.slab_grains);
        extent.grains = pick(random, random() % 9 == 0 ? 0 : 1, geometry.slab_grains / 2 + 1);
        if (random() % 40 == 0) extent.grains = ~pick(random, 0, 3);
        if (random() % 40 == 0) extent.first_grain = static_cast<std::uint32_t>(random());
      }
      Grains tried = grains;
      const bool right = tried.change(extents, true) && in_adopted(extents);
      if (right) grains = tried;
      taken += right ? 1 : 0;
      ASSERT_EQ(allocator.adopt(extents), right) << "step " << step;
      ASSERT_EQ(allocator.usage().used_grains, grains.used());
    }
    ASSERT_EQ(taken > 0, !adopted.empty());
    allocator.finish_adoption();
    expect_equal(allocator, grains, slabs, geometry);
    if (HasFatalFailure()) return;
    Extents rest;
    const std::uint32_t free = geometry.slabs * geometry.slab_grains - grains.used();
    std::uint32_t found = 0;
    for (; allocator.allocate(1, &rest); ++found) ASSERT_TRUE(grains.change(rest, true));
    EXPECT_EQ(found, free);
  }
}

INSTANTIATE_TEST_SUITE_P(, ExtentAllocatorTest,
                         testing::Values(Geometry{7, 8, 40}, Geometry{0, 128, 12},
                                         Geometry{4096, 512, 6}, Geometry{1, 64, 1}),
                         [](const auto& tested) {
                           return "SlabsOf" + std::to_string(tested.param.slab_grains);
                         });

TEST(GrainBitmapTest, FindsRunsAsABruteForceSearchDoes) {
  for (std::uint64_t number = 0; number < 200; ++number) {
    SCOPED_TRACE(case_name(number));
    Random random = case_random(number);
    std::array<std::uint64_t, 4> words{};
    GrainBitmap bitmap(words);
    std::array<bool, 256> taken{};
    for (int step = 0; step < 20; ++step) {
      const std::uint32_t first = pick(random, 0, 255);
      const std::uint32_t grains = pick(random, 1, 256 - first);
      const bool to = random() % 3 != 0;
      const auto range = std::span(taken).subspan(first, grains);
      ASSERT_EQ(bitmap.all(to, first, grains), std::ranges::count(range, to) == grains);
      bitmap.set(to, first, grains > 70 ? 1 : grains);
      std::ranges::fill(range.first(grains > 70 ? 1 : grains), to);
      std::vector<FreeRun> runs;
      for (std::uint32_t i = 0; i < taken.size(); ++i) {
        if (taken[i]) continue;
        if (i == 0 || taken[i - 1]) runs.push_back({i, 0});
        ++runs.back().grains;
      }
      std::ranges::stable_sort(runs, {}, &FreeRun::grains);
      const std::uint32_t longest = runs.empty() ? 0 : runs.back().grains;
      ASSERT_EQ(bitmap.longest().grains, longest);
      ASSERT_TRUE(longest == 0 || bitmap.all(false, bitmap.longest().first, longest));
      const std::uint32_t wanted = pick(random, 1, 64);
      const auto fits = std::ranges::lower_bound(runs, wanted, {}, &FreeRun::grains);
      const FreeRun expected = fits != runs.end() ? *fits : FreeRun{};
      ASSERT_EQ(bitmap.fitting(wanted).first, expected.first);
      ASSERT_EQ(bitmap.fitting(wanted).grains, expected.grains);
    }
  }
}

constexpr Geometry kPool{512, 512, 64};

TEST(ExtentAllocatorUseTest, AdoptsOnlyUntilAdoptionIsFinished) {
  SlabList slabs(64, nullptr);
  slabs.remove(3);
  ExtentAllocator allocator(kPool, &slabs);
  ASSERT_TRUE(allocator.adopt_slab(3));
  ASSERT_TRUE(allocator.adopt(Extents{{4 * 512, 8}}));
  allocator.finish_adoption();
  EXPECT_FALSE(allocator.adopt(Extents{{4 * 512 + 8, 8}}));
  EXPECT_EQ(allocator.usage().used_grains, 8);
}

TEST(ExtentAllocatorUseTest, NeighbouringSlabsMakeOneExtent) {
  Random random = case_random(0);
  SlabList slabs(32, &random);
  ExtentAllocator allocator({512, 512, 32}, &slabs);
  Extents extents;
  ASSERT_TRUE(allocator.allocate(32 * 512, &extents));
  EXPECT_EQ(extents, (Extents{{512, 32 * 512}}));
}

TEST(ExtentAllocatorUseTest, SmallObjectsFillTheSlabThatFitsBestBeforeAnother) {
  SlabList slabs(64, nullptr);
  ExtentAllocator allocator(kPool, &slabs);
  Extents wide;
  Extents narrow;
  Extents extents;
  ASSERT_TRUE(allocator.allocate(500, &narrow));  // Leaves 12.
  ASSERT_TRUE(allocator.allocate(450, &wide));    // Leaves 62.
  ASSERT_TRUE(allocator.allocate(10, &extents));
  EXPECT_EQ(allocator.slab_of(extents[0].first_grain), allocator.slab_of(narrow[0].first_grain));
  ASSERT_TRUE(allocator.allocate(20, &extents));
  EXPECT_EQ(allocator.slab_of(extents[0].first_grain), allocator.slab_of(wide[0].first_grain));
  ASSERT_TRUE(allocator.allocate(44, &extents));
  EXPECT_EQ(extents.size(), 2);  // 42 + 2.
  EXPECT_EQ(allocator.usage().used_grains, allocator.usage().owned_grains);
}

TEST(ExtentAllocatorUseTest, NamesTheSparsestSlabWhileTheOthersCanTakeWhatItHolds) {
  SlabList slabs(64, nullptr);
  ExtentAllocator allocator(kPool, &slabs);
  std::array<Extents, 4> objects;
  for (Extents& object : objects) ASSERT_TRUE(allocator.allocate(512, &object));
  EXPECT_EQ(allocator.sparsest_slab(), std::nullopt);
  const auto keep = [&](const Extents& object, std::uint32_t grains) {
    const std::uint32_t first = object[0].first_grain + grains;
    ASSERT_TRUE(allocator.release(Extents{{first, 512 - grains}}));
  };
  keep(objects[0], 300);
  EXPECT_EQ(allocator.sparsest_slab(), std::nullopt);
  keep(objects[1], 200);
  EXPECT_EQ(allocator.sparsest_slab(), allocator.slab_of(objects[1][0].first_grain));
  keep(objects[2], 100);
  const std::uint32_t sparsest = allocator.slab_of(objects[2][0].first_grain);
  ASSERT_EQ(allocator.sparsest_slab(), sparsest);
  ASSERT_TRUE(allocator.close_slab(sparsest));
  EXPECT_EQ(allocator.sparsest_slab(), allocator.slab_of(objects[1][0].first_grain));
  Extents moved;
  ASSERT_TRUE(allocator.allocate(100, &moved, ExtentAllocator::Reach::kOwnSlabs));
  EXPECT_NE(allocator.slab_of(moved[0].first_grain), sparsest);
  ASSERT_TRUE(allocator.release(Extents{{objects[2][0].first_grain, 100}}));
  EXPECT_TRUE(slabs.holds(sparsest));
}

TEST(ExtentAllocatorUseTest, ThreadsNeverShareAGrain) {
  SlabList slabs(kPool.slabs, nullptr);
  ExtentAllocator allocator(kPool, &slabs);
  std::vector<std::atomic<int>> owner(std::size_t{kPool.slabs + 1} * kPool.slab_grains);
  const auto work = [&](int thread) {
    Random random = case_random(static_cast<std::uint64_t>(thread));
    std::vector<Extents> objects;
    const auto change = [&](const Extents& extents, int from, int to) {
      int wrong = 0;
      for (const Extent& extent : extents) {
        for (std::uint32_t i = 0; i < extent.grains; ++i) {
          if (owner[extent.first_grain + i].exchange(to) != from) ++wrong;
        }
      }
      EXPECT_EQ(wrong, 0);
    };
    const auto release = [&](const Extents& extents) {
      change(extents, thread, 0);
      EXPECT_TRUE(allocator.release(extents));
    };
    for (int step = 0; step < 1500; ++step) {
      Extents extents;
      if (random() % 2 == 0 && allocator.allocate(pick(random, 1, 1200), &extents)) {
        change(extents, 0, thread);
        objects.push_back(extents);
      } else if (!objects.empty()) {
        std::swap(objects[random() % objects.size()], objects.back());
        release(objects.back());
        objects.pop_back();
      }
    }
    for (const Extents& object : objects) release(object);
  };
  std::thread other(work, 2);
  work(1);
  other.join();
  EXPECT_EQ(slabs.count(), kPool.slabs);
  EXPECT_EQ(allocator.usage().used_grains, 0);
}

}  // namespace
}  // namespace nearkv::test
