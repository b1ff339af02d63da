// Slabs for tests of what is cut from them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <mutex>
#include <vector>

#include "object/extent_allocator.hpp"
#include "support/seed.hpp"

namespace nearkv::test {

using Extents = std::vector<Extent>;

/// Slabs that nobody else wants, given out at random, or in an order of no promise.
class SlabList : public SlabSource {
 public:
  SlabList(std::uint32_t count, Random* random) : random_(random) {
    for (std::uint32_t slab = 0; slab < count; ++slab) free_.push_back(slab);
  }

  std::optional<std::uint32_t> take_slab() override {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return std::nullopt;
    const std::size_t chosen = random_ != nullptr ? (*random_)() % free_.size() : 0;
    std::swap(free_[chosen], free_.back());
    const std::uint32_t slab = free_.back();
    free_.pop_back();
    return slab;
  }

  void return_slab(std::uint32_t slab) override {
    const std::lock_guard lock(mutex_);
    EXPECT_EQ(std::ranges::count(free_, slab), 0) << "returned twice";
    free_.push_back(slab);
  }

  void remove(std::uint32_t slab) { std::erase(free_, slab); }
  [[nodiscard]] bool holds(std::uint32_t slab) const {
    return std::ranges::find(free_, slab) != free_.end();
  }
  [[nodiscard]] std::size_t count() const { return free_.size(); }

 private:
  std::mutex mutex_;
  std::vector<std::uint32_t> free_;
  Random* random_;
};

}  // namespace nearkv::test
