// The inner loops by codes, those of this processor beside those of any, on random pages.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <new>
#include <vector>

#include "codes/page_kernels.hpp"
#include "support/seed.hpp"

namespace nearkv::test {

inline constexpr std::size_t kTokens = NKV_PAGE_TOKENS;
inline constexpr std::array<std::size_t, 10> kDims = {16, 48, 64, 80, 96, 128, 192, 256, 512, 576};

/// Allocates for vectors.
template <typename T>
struct VectorAllocator {
  using value_type = T;
  static constexpr std::align_val_t kAlignment{64};

  VectorAllocator() = default;
  template <typename Other>
  explicit VectorAllocator(const VectorAllocator<Other>& /*other*/) {}
  T* allocate(std::size_t count) {
    return static_cast<T*>(::operator new(count * sizeof(T), kAlignment));
  }
  void deallocate(T* numbers, std::size_t /*count*/) { ::operator delete(numbers, kAlignment); }
  friend bool operator==(const VectorAllocator&, const VectorAllocator&) { return true; }
};

template <typename T>
using Numbers = std::vector<T, VectorAllocator<T>>;

template <typename T>
Numbers<T> random_numbers(std::size_t count, int least, int most, Random& random) {
  Numbers<T> numbers(count);
  for (T& number : numbers) {
    number = static_cast<T>(least +
                            static_cast<int>(random() % static_cast<unsigned>(most - least + 1)));
  }
  return numbers;
}

/// Both ways of each function, on a page's random numbers.
class PageKernelsCase : public testing::TestWithParam<std::size_t> {
 protected:
  void SetUp() override {
    if (avx512_page_kernels() == nullptr) GTEST_SKIP() << "no kernels of its own";
  }

  template <typename T, typename Call>
  void expect_same(std::size_t count, const Call& call) {
    Numbers<T> own(count, T{1});
    Numbers<T> expected = own;
    call(page_kernels(), own.data());
    call(portable_page_kernels(), expected.data());
    EXPECT_TRUE(own == expected);
  }

  [[nodiscard]] std::size_t dim() const { return GetParam(); }
  std::uint64_t tokens() { return random_() & (random_() | random_()); }
  /// Disjoint sets of tokens by planes.
  std::array<std::uint64_t, 5> plane_tokens() {
    std::array<std::uint64_t, 5> sets{};
    for (std::uint64_t left = ~std::uint64_t{0}; std::uint64_t& set : sets) {
      set = left & (random_() % 4 == 0 ? 0 : tokens());
      left &= ~set;
    }
    return sets;
  }
  std::int16_t number(int most) {
    return static_cast<std::int16_t>(
        static_cast<int>(random_() % static_cast<unsigned>(2 * most + 1)) - most);
  }

  Random random_ = case_random(31);
};

}  // namespace nearkv::test
