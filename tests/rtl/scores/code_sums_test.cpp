// nkv_code_sums against sums of weights by codes: rows of every number, planes of every number,
// both banks, and the largest weights by every group of signs.
#include <gtest/gtest.h>

#include <array>
#include <cstdlib>
#include <string>
#include <vector>

#include "Vnkv_code_sums.h"
#include "nkv_abi.h"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kLanes = 32;
constexpr unsigned kRows = 8;
constexpr unsigned kChannels = 128;
constexpr unsigned kTokens = 4;
constexpr unsigned kSlices = NKV_PAGE_TOKENS / kTokens;
constexpr unsigned kRowCycles = 20;
constexpr unsigned kLatency = 5;
constexpr std::int64_t kLength = 1 << 14;  // Of weights, and what their rounding may add.
constexpr std::int64_t kRounding = kChannels / 2;

using Weights = std::vector<std::vector<std::int64_t>>;  // [row][channel]
using Cells = std::vector<std::vector<int>>;             // u + 2^3 of 11.5, [token][channel]

class Sums : public Simulation<Vnkv_code_sums> {
 public:
  Sums() { reset(); }

  void load(const Weights& weights, unsigned bank) {
    (*this)->load_i = 1;
    (*this)->load_bank_i = static_cast<std::uint8_t>(bank);
    tick();
    (*this)->load_i = 0;
    const auto words = static_cast<unsigned>((weights[0].size() + kLanes - 1) / kLanes);
    (*this)->last_index_i = static_cast<std::uint8_t>(words - 1);
    unsigned loaded = 0;
    for (const auto& row : weights) {
      for (unsigned i = 0; i < kRowCycles; ++i) {
        (*this)->weight_valid_i = i < words;
        (*this)->weight_index_i = static_cast<std::uint8_t>(i % words);
        for (unsigned lane = 0; lane < kLanes && i < words; ++lane) {
          const size_t c = i * kLanes + lane;
          (*this)->weight_i[lane] = static_cast<std::uint16_t>(c < row.size() ? row[c] : 0);
        }
        tick();
        loaded += (*this)->loaded_o;
      }
    }
    for (unsigned i = 0; i < 4; ++i) {
      tick();
      loaded += (*this)->loaded_o;
    }
    ASSERT_EQ(loaded, weights.size());
  }

  /// Scores a page's tokens by so many planes: plane after plane, or slice after slice.
  void check(const Weights& weights, const Cells& cells, unsigned bank, unsigned planes,
             bool by_slices) {
    (*this)->bank_i = static_cast<std::uint8_t>(bank);
    (*this)->last_plane_i = static_cast<std::uint8_t>(planes - 1);
    seen_ = 0;
    for (unsigned i = 0; i < planes * kSlices; ++i) {
      const unsigned slice = by_slices ? i / planes : i % kSlices;
      const unsigned plane = by_slices ? i % planes : i / kSlices;
      (*this)->valid_i = 1;
      (*this)->slice_i = static_cast<std::uint8_t>(slice);
      (*this)->plane_i = static_cast<std::uint8_t>(plane);
      for (auto& word : (*this)->bits_i.m_storage) word = 0;
      for (unsigned t = 0; t < kTokens; ++t) {
        for (unsigned c = 0; c < weights[0].size(); ++c) {
          const int bit = cells[slice * kTokens + t][c] >> (3 - plane) & 1;
          const unsigned place = kChannels * t + c;
          (*this)->bits_i[place / 32] |= static_cast<unsigned>(bit) << place % 32;
        }
      }
      cycle(weights, cells, planes);
      if (testing::Test::HasFatalFailure()) return;
    }
    (*this)->valid_i = 0;
    for (unsigned i = 0; i < kLatency; ++i) cycle(weights, cells, planes);
    ASSERT_EQ(seen_, kSlices);
  }

 private:
  void cycle(const Weights& weights, const Cells& cells, unsigned planes) {
    tick();
    if (!(*this)->valid_o) return;
    ASSERT_EQ((*this)->slice_o, seen_);
    for (unsigned row = 0; row < weights.size(); ++row) {
      for (unsigned t = 0; t < kTokens; ++t) {
        std::int64_t expected = 0;
        for (size_t c = 0; c < weights[row].size(); ++c) {
          // 2u + 1 with the planes that are not there halfway.
          const int leading = cells[seen_ * kTokens + t][c] >> (4 - planes);
          expected += weights[row][c] * (2 * leading + 1 - (1 << planes));
        }
        const unsigned sum = (*this)->sum_o[row][t];
        ASSERT_EQ(static_cast<std::int32_t>(sum << 13) >> 13, expected)
            << "row " << row << ", slice " << seen_ << ", token " << t;
      }
    }
    ++seen_;
  }

  unsigned seen_ = 0;
};

Weights any_weights(test::Random& random, unsigned rows, unsigned dim) {
  Weights weights(rows, std::vector<std::int64_t>(dim));
  for (auto& row : weights) {
    // Few that are large, or all of one size; rounded, which may add to them.
    const unsigned parts = 1u << test::pick(random, 0, 12);
    for (unsigned i = 0; i < parts; ++i) row[test::pick(random, 0, dim - 1)] += kLength / parts;
    for (unsigned i = 0; i < kRounding * dim / kChannels; ++i) ++row[2 * i];
    for (auto& weight : row) weight = random() % 2 == 0 ? -weight : weight;
  }
  return weights;
}

Cells any_cells(test::Random& random, unsigned dim) {
  Cells cells(NKV_PAGE_TOKENS, std::vector<int>(dim));
  for (auto& token : cells) {
    for (auto& cell : token) cell = static_cast<int>(random() % 16);
  }
  return cells;
}

TEST(CodeSumsTest, AnyRowsAndPlanes) {
  test::Random random = test::case_random(1);
  Sums unit;
  // Wider rows first: nothing may be left of them.
  for (unsigned dim = kChannels; dim >= 16; dim -= 16) {
    for (unsigned i = 0; i < 16; ++i) {
      SCOPED_TRACE(std::to_string(dim) + " channels, case " + std::to_string(i));
      const Weights weights = any_weights(random, test::pick(random, 1, kRows), dim);
      unit.load(weights, i % 2);
      unit.check(weights, any_cells(random, dim), i % 2, 1 + i / 2 % 4, i >= 8);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(CodeSumsTest, OneBankIsWrittenWhileTheOtherStands) {
  test::Random random = test::case_random(2);
  Sums unit;
  Weights standing = any_weights(random, kRows, kChannels);
  unit.load(standing, 0);
  for (unsigned bank = 1; bank < 6; ++bank) {
    const Weights next = any_weights(random, kRows, kChannels);
    unit->bank_i = static_cast<std::uint8_t>((bank - 1) % 2);
    unit.load(next, bank % 2);
    unit.check(standing, any_cells(random, kChannels), (bank - 1) % 2, 4, false);
    unit.check(next, any_cells(random, kChannels), bank % 2, 4, true);
    standing = next;
    if (HasFatalFailure()) return;
  }
}

TEST(CodeSumsTest, TheLargestSums) {
  test::Random random = test::case_random(3);
  Sums unit;
  const Weights weights = any_weights(random, kRows, kChannels);
  unit.load(weights, 0);
  for (unsigned planes = 1; planes <= 4; ++planes) {
    Cells cells(NKV_PAGE_TOKENS, std::vector<int>(kChannels));
    for (size_t token = 0; token < cells.size(); ++token) {
      for (size_t c = 0; c < kChannels; ++c) {
        const bool plus = (weights[token % kRows][c] > 0) != (token >= kRows);
        cells[token][c] = plus ? 15 : 0;
      }
    }
    unit.check(weights, cells, 0, planes, false);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace nearkv::rtl_test
