// nkv_code_slices: planes of pages of every dimension, whole ones and parts of them, against their
// own bits.
#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <numeric>
#include <string>
#include <vector>

#include "Vnkv_code_slices.h"
#include "nkv_abi.h"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kTokens = 4;
constexpr unsigned kSlices = NKV_PAGE_TOKENS / kTokens;
constexpr unsigned kBurstBits = 512;
constexpr unsigned kPatience = 40;

struct Slice {
  unsigned number;
  unsigned plane;
  std::vector<bool> bits;
};

class Slices : public Simulation<Vnkv_code_slices> {
 public:
  explicit Slices(unsigned dim) : dim_(dim) {
    (*this)->dim_i = static_cast<std::uint8_t>(dim);
    reset();
  }

  /// Slices [first, end) of a plane, whose bursts they fill.
  void run(unsigned first, unsigned end, unsigned plane, test::Random& random, unsigned pace) {
    std::vector<bool> bits((end - first) * kTokens * dim_);
    for (size_t i = 0; i < bits.size(); ++i) bits[i] = random() % 2 == 0;
    for (unsigned slice = first; slice < end; ++slice) {
      const auto from = bits.begin() + (slice - first) * kTokens * dim_;
      due_.push_back({slice, plane, std::vector<bool>(from, from + kTokens * dim_)});
    }
    ASSERT_EQ(bits.size() % kBurstBits, 0u);
    for (size_t at = 0; at < bits.size();) {
      (*this)->valid_i = is_willing(random, pace);
      (*this)->first_i = at == 0;
      (*this)->slice_i = static_cast<std::uint8_t>(at == 0 ? first : random() % kSlices);
      (*this)->plane_i = static_cast<std::uint8_t>(at == 0 ? plane : random() % 4);
      for (unsigned i = 0; i < kBurstBits / 32; ++i) {
        std::uint32_t word = 0;
        for (unsigned b = 0; b < 32; ++b) word |= std::uint32_t{bits[at + 32 * i + b]} << b;
        (*this)->burst_i[i] = word;
      }
      settle();
      const bool takes = (*this)->valid_i && (*this)->ready_o;
      cycle();
      if (takes) at += kBurstBits;
    }
    (*this)->valid_i = 0;
  }

  void cycle() {
    tick();
    if (!(*this)->valid_o) return;
    ASSERT_FALSE(due_.empty());
    const Slice& slice = due_.front();
    ASSERT_EQ((*this)->slice_o, slice.number);
    ASSERT_EQ((*this)->plane_o, slice.plane);
    for (unsigned t = 0; t < kTokens; ++t) {
      for (unsigned c = 0; c < 128; ++c) {
        const unsigned place = 128 * t + c;
        const bool bit = ((*this)->bits_o[place / 32] >> place % 32 & 1) != 0;
        ASSERT_EQ(bit, c < dim_ && slice.bits[t * dim_ + c])
            << "slice " << slice.number << ", token " << t << ", channel " << c;
      }
    }
    due_.pop_front();
  }

  void drain() {
    for (unsigned i = 0; i < kPatience; ++i) cycle();
    ASSERT_TRUE(due_.empty());
  }

  /// A burst of which something is left, then cleared.
  void start_and_clear() {
    (*this)->valid_i = (*this)->first_i = 1;
    for (auto& word : (*this)->burst_i.m_storage) word = ~0u;
    tick();
    (*this)->valid_i = 0;
    (*this)->clear_i = 1;
    tick();
    (*this)->clear_i = 0;
    ASSERT_FALSE((*this)->valid_o);
  }

 private:
  unsigned dim_;
  std::deque<Slice> due_;
};

/// Slices of the least whole bursts.
unsigned granule_slices(unsigned dim) {
  return std::max(64 / std::gcd(64u, dim / 8) / kTokens, 1u);
}

TEST(CodeSlicesTest, PlanesOfEveryDimension) {
  test::Random random = test::case_random(1);
  for (unsigned dim = 16; dim <= 128; dim += 16) {
    Slices unit(dim);
    for (const unsigned pace : kPaces) {
      SCOPED_TRACE(std::to_string(dim) + " channels, pace " + std::to_string(pace));
      for (unsigned plane = 0; plane < 4; ++plane) {
        unit.run(0, kSlices, plane, random, pace);
        if (HasFatalFailure()) return;
      }
      for (unsigned i = 0; i < 10; ++i) {
        const unsigned granules = kSlices / granule_slices(dim);
        const unsigned first = test::pick(random, 0, granules - 1);
        const unsigned end = test::pick(random, first + 1, granules);
        unit.run(first * granule_slices(dim), end * granule_slices(dim), test::pick(random, 0, 3),
                 random, pace);
        if (HasFatalFailure()) return;
      }
      unit.drain();
      if (HasFatalFailure()) return;
    }
    unit.start_and_clear();
    unit.run(0, kSlices, 0, random, 8);
    unit.drain();
    if (HasFatalFailure()) return;
  }
}

TEST(CodeSlicesTest, ABurstACycleOfTheWidestRows) {
  test::Random random = test::case_random(2);
  Slices unit(128);
  const std::uint64_t before = unit.cycles();
  for (unsigned plane = 0; plane < 4; ++plane) unit.run(0, kSlices, plane, random, 8);
  EXPECT_EQ(unit.cycles() - before, 4u * kSlices);
  unit.drain();
}

}  // namespace
}  // namespace nearkv::rtl_test
