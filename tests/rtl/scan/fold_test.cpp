// nkv_fold against the model's PlaneWeights: every weight and every sum, for any digest.
#include <gtest/gtest.h>

#include <array>
#include <cstring>
#include <deque>
#include <vector>

#include "Vnkv_fold.h"
#include "planes.hpp"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

using Fold = Simulation<Vnkv_fold>;
constexpr unsigned kRows = 8;

struct Digest {
  int step_exponent;
  std::vector<std::uint16_t> entries;
};

std::int32_t signed_of(std::uint32_t value, unsigned bits) {
  return static_cast<std::int32_t>(value << (32 - bits)) >> (32 - bits);
}

void load_query(Fold& fold, const std::vector<std::vector<std::int32_t>>& query, unsigned words) {
  for (unsigned row = 0; row < kRows; ++row) {
    for (unsigned word = 0; word < words; ++word) {
      for (unsigned c = 0; c < 32; ++c) {
        const bool is_there = 32 * word + c < query[row].size();
        fold->query_data_i[c] = (is_there ? query[row][32 * word + c] : 0) & 0xffffff;
      }
      fold->query_row_i = static_cast<std::uint8_t>(row);
      fold->query_word_i = static_cast<std::uint8_t>(word);
      fold->query_valid_i = 1;
      ASSERT_TRUE(fold.tick_until([&] { return fold->query_ready_o; }, 8));
      fold.tick();
    }
  }
  fold->query_valid_i = 0;
}

std::vector<std::vector<std::int32_t>> random_query(unsigned head_dim, test::Random& random) {
  std::vector<std::vector<std::int32_t>> query(kRows, std::vector<std::int32_t>(head_dim));
  for (unsigned row = 0; row < kRows; ++row) {
    for (std::int32_t& element : query[row]) {
      const auto any = signed_of(static_cast<std::uint32_t>(random()) & 0xffffff, 24);
      constexpr std::int32_t kLargest = (1 << 23) - 1;
      switch (row) {
        case 0:
          element = kLargest;
          break;
        case 1:
          element = -kLargest;
          break;
        case 2:
          element = any >> random() % 24;
          break;
        case 3:
          element = 0;
          break;
        default:
          element = any == -kLargest - 1 ? 0 : any;
      }
    }
  }
  return query;
}

// Any digest, its exponents about where weights fit, vanish, or g is clamped.
Digest random_digest(unsigned head_dim, int key_exponent, test::Random& random) {
  Digest digest{.step_exponent = 0, .entries = std::vector<std::uint16_t>(head_dim)};
  digest.step_exponent =
      random() % 4 == 0 ? static_cast<std::int16_t>(random())
                        : key_exponent - 152 + static_cast<int>(test::pick(random, 0, 70)) - 35;
  const unsigned kind = test::pick(random, 0, 3);
  for (std::uint16_t& entry : digest.entries) {
    entry = static_cast<std::uint16_t>(random());
    if (kind == 0) entry = 0x077f;                                      // Largest sums.
    if (kind == 1) entry = 0x0780;                                      // Lowest base.
    if (kind == 2) entry = static_cast<std::uint16_t>(entry & 0x07ff);  // No delta.
  }
  return digest;
}

struct Fed {
  unsigned head_dim;
  int key_exponent;
  std::vector<std::vector<std::int32_t>> query;
  std::vector<Digest> pages;
};

void expect_fold(Fold& fold, const Fed& fed, unsigned pace, test::Random& random) {
  const unsigned words = (fed.head_dim + 31) / 32;
  fold->key_exponent_i = static_cast<std::uint8_t>(fed.key_exponent);
  fold->words_i = static_cast<std::uint8_t>(words);
  load_query(fold, fed.query, words);

  std::vector<std::vector<model::ChannelCells>> cells;
  for (const Digest& page : fed.pages) {
    auto& channels = cells.emplace_back();
    for (const std::uint16_t entry : page.entries) {
      channels.push_back(model::decode_digest(entry, page.step_exponent));
    }
  }
  std::size_t begun = 0;
  std::size_t digests = 0;
  std::size_t weights_page = 0;
  std::size_t terms = 0;
  std::size_t rooms = 0;
  for (unsigned i = 0; i < 20000 && terms < kRows * fed.pages.size(); ++i) {
    fold->page_valid_i = begun < fed.pages.size() && is_willing(random, pace);
    if (begun < fed.pages.size()) {
      fold->page_slot_i = begun % 4;
      fold->page_step_exponent_i = static_cast<std::uint16_t>(fed.pages[begun].step_exponent);
    }
    fold->digest_valid_i = digests < words * fed.pages.size() && is_willing(random, pace);
    if (digests < words * fed.pages.size()) {
      const auto& entries = fed.pages[digests / words].entries;
      std::array<std::uint16_t, 32> burst;
      for (unsigned c = 0; c < 32; ++c) {
        const std::size_t channel = digests % words * 32 + c;
        burst[c] =
            channel < entries.size() ? entries[channel] : static_cast<std::uint16_t>(random());
      }
      std::memcpy(fold->digest_data_i.data(), burst.data(), sizeof(burst));
    }
    fold->half_room_i = is_willing(random, pace);
    fold.settle();
    rooms += fold->half_begins_o ? 1 : 0;
    if (fold->half_begins_o) {
      ASSERT_TRUE(fold->half_room_i);
    }
    begun += fold->page_valid_i && fold->page_ready_o ? 1 : 0;
    digests += fold->digest_valid_i && fold->digest_ready_o ? 1 : 0;
    fold.tick();

    if (fold->weight_valid_o) {
      for (unsigned r = 0; r < kRows / 2; ++r) {
        for (unsigned k = 0; k < 8; ++k) {
          const unsigned channel = 32 * fold->weight_word_o + 4 * k + fold->weight_step_o;
          if (channel >= fed.head_dim) continue;
          const unsigned row = r + 4 * fold->weight_half_o;
          const model::PlaneWeights one(std::span(fed.query[row]).subspan(channel, 1),
                                        std::span(cells[weights_page]).subspan(channel, 1),
                                        fed.key_exponent);
          // A code of 128 in a cell of 2 steps lies one step above the centre.
          const std::uint8_t code = 128;
          const std::int64_t weight = one.midpoint(std::span(&code, 1), 7) - one.constant();
          ASSERT_EQ(signed_of(fold->weight_o[r][k], 12), weight)
              << "row " << row << " channel " << channel << " page " << weights_page;
        }
      }
      if (fold->weight_last_o && fold->weight_half_o) ++weights_page;
    }
    if (fold->terms_valid_o) {
      const std::size_t page = terms / kRows;
      const unsigned row = fold->terms_row_o;
      ASSERT_EQ(row, terms % kRows);
      ASSERT_EQ(fold->terms_slot_o, page % 4);
      const model::PlaneWeights expected(fed.query[row], cells[page], fed.key_exponent);
      SCOPED_TRACE("row " + std::to_string(row) + " page " + std::to_string(page));
      EXPECT_EQ(signed_of(fold->terms_constant_o, 29), expected.constant());
      EXPECT_EQ(fold->terms_norm_o, expected.weight_sum());
      EXPECT_EQ(fold->terms_squares_o, expected.squares());
      EXPECT_EQ(fold->terms_slack_o, expected.remainder());
      // Codes of 128 in cells of 2 steps lie one step above the centre.
      const std::vector<std::uint8_t> codes(fed.head_dim, 128);
      EXPECT_EQ(signed_of(fold->terms_sum_o, 19),
                expected.midpoint(codes, 7) - expected.constant());
      ++terms;
    }
  }
  EXPECT_EQ(terms, kRows * fed.pages.size());
  EXPECT_EQ(weights_page, fed.pages.size());
  EXPECT_EQ(rooms, 2 * fed.pages.size());
}

TEST(FoldTest, FoldsAnyDigest) {
  Fold fold;
  fold.reset();
  for (unsigned head_dim = 16; head_dim <= 128; head_dim += 16) {
    for (const unsigned pace : kPaces) {
      SCOPED_TRACE("head_dim " + std::to_string(head_dim) + " pace " + std::to_string(pace));
      test::Random random = test::case_random(head_dim * 8 + pace);
      Fed fed{.head_dim = head_dim,
              .key_exponent = static_cast<int>(test::pick(random, 0, 255)),
              .query = random_query(head_dim, random),
              .pages = {}};
      for (unsigned page = 0; page < 25; ++page) {
        fed.pages.push_back(random_digest(head_dim, fed.key_exponent, random));
      }
      expect_fold(fold, fed, pace, random);
      if (HasFailure()) return;
    }
  }
}

TEST(FoldTest, ForgetsAPageAtReset) {
  Fold fold;
  fold.reset();
  for (const unsigned cycles : {3U, 20U, 37U, 49U}) {
    test::Random random = test::case_random(cycles);
    Fed fed{.head_dim = 128,
            .key_exponent = 130,
            .query = random_query(128, random),
            .pages = {random_digest(128, 130, random)}};
    fold->words_i = 4;
    fold->half_room_i = 1;
    fold->page_valid_i = 1;
    fold->digest_valid_i = 1;
    fold.ticks(cycles);
    fold->page_valid_i = 0;
    fold->digest_valid_i = 0;
    fold.reset();
    expect_fold(fold, fed, 8, random);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace nearkv::rtl_test
