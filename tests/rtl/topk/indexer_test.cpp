// nkv_indexer against the model: R of every token that counts, in order, bit for bit.
#include "indexer.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstdint>
#include <vector>

#include "Vnkv_indexer.h"
#include "number.hpp"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kRows = 8;
constexpr unsigned kPageTokens = 64;
constexpr std::uint32_t kOne = 0x3f800000;
constexpr std::uint64_t kScoreMask = (std::uint64_t{1} << 60) - 1;

/// A finite binary32 pattern whose exponent lies in a range.
std::uint32_t pattern(test::Random& random, unsigned least, unsigned most) {
  return test::pick(random, 0, 1) << 31 | test::pick(random, least, most) << 23 |
         test::pick(random, 0, 0x7fffff);
}

struct Weighting {
  unsigned rows = kRows;
  std::array<std::uint32_t, kRows> weights{};
  std::array<int, kRows> exponents{};  ///< Eq of each row.
};

Weighting random_weighting(test::Random& random) {
  Weighting weighting{.rows = 1 + test::pick(random, 0, kRows - 1)};
  const bool wide = random() % 2 == 0;
  for (unsigned row = 0; row < kRows; ++row) {
    // Of rows that are not in use anything may stand there.
    weighting.weights[row] = wide ? pattern(random, 0, 254) : pattern(random, 120, 127);
    weighting.exponents[row] = static_cast<int>(wide ? test::pick(random, 0, 254) : 126);
  }
  return weighting;
}

struct Token {
  bool counts = true;
  std::uint32_t scale = kOne;
  std::array<std::int64_t, kRows> scores{};
};

struct Page {
  bool scaled = false;
  std::vector<Token> tokens{kPageTokens};
};

std::int64_t random_score(test::Random& random) {
  const unsigned kind = test::pick(random, 0, 7);
  if (kind == 0) return (std::int64_t{1} << 59) - 1;
  if (kind == 1) return -(std::int64_t{1} << 59) + 1;
  if (kind == 2) return test::pick(random, 0, 1) << 23;
  return static_cast<std::int64_t>(random()) >> test::pick(random, 5, kind == 3 ? 63 : 12);
}

std::vector<Page> random_pages(test::Random& random, unsigned count) {
  std::vector<Page> pages(count);
  for (Page& page : pages) {
    page.scaled = random() % 4 != 0;
    for (Token& token : page.tokens) {
      token.counts = random() % 8 != 0;
      if (page.scaled) {
        token.scale =
            random() % 16 == 0 ? 0x7f800000 | test::pick(random, 0, 3) : pattern(random, 0, 254);
      }
      for (std::int64_t& score : token.scores) score = random_score(random);
    }
  }
  return pages;
}

class Indexer : public Simulation<Vnkv_indexer> {
 public:
  Indexer() { reset(); }

  void start(const Weighting& weighting) {
    (*this)->clear_i = 1;
    tick();
    (*this)->clear_i = 0;
    (*this)->rows_i = static_cast<std::uint8_t>(weighting.rows);
    for (unsigned row = 0; row < kRows; ++row) {
      (*this)->weight_i[row] = weighting.weights[row];
      (*this)->query_exponent_i[row] = static_cast<std::uint8_t>(weighting.exponents[row]);
    }
    (*this)->start_i = 1;
    tick();
    (*this)->start_i = 0;
  }

  /// Streams pages through and holds each candidate against the model.
  void run(const Weighting& weighting, const std::vector<Page>& pages, test::Random& random,
           unsigned pace) {
    start(weighting);
    const model::IndexerWeights weights(std::span(weighting.weights).first(weighting.rows),
                                        std::span(weighting.exponents).first(weighting.rows));
    std::size_t token = 0, scale = 0, answered = 0;
    const std::size_t tokens = pages.size() * kPageTokens;
    bool nonfinite = false;
    const auto counts = [&](std::size_t i) {
      const Token& of = pages[i / kPageTokens].tokens[i % kPageTokens];
      return of.counts && model::decode_binary32(of.scale).finite;
    };
    for (unsigned idle = 0; token < tokens || answered < tokens; ++idle) {
      ASSERT_LT(idle, 300U) << "token " << token;
      while (answered < tokens && !counts(answered)) ++answered;
      while (scale < tokens && !pages[scale / kPageTokens].scaled) scale += kPageTokens;
      (*this)->score_valid_i = token < tokens && is_willing(random, pace);
      if ((*this)->score_valid_i) put_score(pages, token);
      // Scales may come long after the scores, and a page before them.
      (*this)->scale_valid_i =
          scale < std::min(tokens, token + 2 * kPageTokens) && is_willing(random, pace);
      if ((*this)->scale_valid_i) put_scales(pages, scale);
      (*this)->candidate_ready_i = is_willing(random, pace);
      settle();
      if ((*this)->candidate_valid_o && (*this)->candidate_ready_i) {
        ASSERT_LT(answered, token);
        const Token& of = pages[answered / kPageTokens].tokens[answered % kPageTokens];
        const std::int64_t sum = weights.sum(std::span(of.scores).first(weighting.rows));
        ASSERT_EQ((*this)->candidate_o, answered);
        ASSERT_EQ((*this)->rank_o,
                  static_cast<std::uint64_t>(model::indexer_rank(sum, of.scale)) & kScoreMask)
            << "token " << answered << " sum " << sum << " scale " << of.scale;
        ++answered;
        idle = 0;
      }
      if ((*this)->score_valid_i && (*this)->score_ready_o) {
        const Token& of = pages[token / kPageTokens].tokens[token % kPageTokens];
        nonfinite |= of.counts && !counts(token);
        ++token;
        idle = 0;
      }
      if ((*this)->scale_valid_i && (*this)->scale_ready_o) scale += 16;
      tick();
    }
    settle();
    ASSERT_TRUE((*this)->idle_o);
    ASSERT_EQ((*this)->nonfinite_o, nonfinite);
    ASSERT_EQ((*this)->exponent_o, weights.exponent());
  }

 private:
  void put_score(const std::vector<Page>& pages, std::size_t token) {
    const Page& page = pages[token / kPageTokens];
    const Token& of = page.tokens[token % kPageTokens];
    (*this)->score_scaled_i = page.scaled;
    (*this)->score_counts_i = of.counts;
    (*this)->score_page_i = static_cast<std::uint16_t>(token / kPageTokens);
    (*this)->score_token_i = token % kPageTokens;
    for (unsigned row = 0; row < kRows; ++row) {
      (*this)->score_i[row] = static_cast<std::uint64_t>(of.scores[row]) & kScoreMask;
    }
  }

  void put_scales(const std::vector<Page>& pages, std::size_t first) {
    for (unsigned i = 0; i < 16; ++i) {
      (*this)->scale_i[i] = pages[first / kPageTokens].tokens[first % kPageTokens + i].scale;
    }
  }
};

TEST(IndexerTest, RanksAsTheModelDoes) {
  test::Random random = test::case_random(0);
  Indexer indexer;
  for (unsigned i = 0; i < 48 && !testing::Test::HasFailure(); ++i) {
    SCOPED_TRACE(testing::Message() << "case " << i);
    indexer.run(random_weighting(random), random_pages(random, 6), random, kPaces[i % 3]);
  }
}

TEST(IndexerTest, WeightsOfZeroRankNothing) {
  test::Random random = test::case_random(1);
  Indexer indexer;
  // Zeros of both signs and subnormal numbers.
  const Weighting weighting{.rows = 3, .weights = {0, 0x80000000, 0x007fffff}, .exponents = {}};
  indexer.run(weighting, random_pages(random, 2), random, 8);
}

TEST(IndexerTest, ScalesOfTokensThatDoNotCountMayBeAnything) {
  test::Random random = test::case_random(3);
  Indexer indexer;
  std::vector<Page> pages = random_pages(random, 3);
  for (Page& page : pages) {
    page.scaled = true;
    for (Token& token : page.tokens) {
      token.counts = random() % 2 == 0;
      token.scale = token.counts ? kOne : 0x7fc00000;
    }
  }
  indexer.run(random_weighting(random), pages, random, 8);
}

TEST(IndexerTest, ClearForgetsScalesAndScores) {
  test::Random random = test::case_random(2);
  Indexer indexer;
  for (unsigned cycles = 1; cycles < 60 && !testing::Test::HasFailure(); cycles += 3) {
    SCOPED_TRACE(testing::Message() << "after " << cycles << " cycles");
    indexer.start(random_weighting(random));
    indexer->score_valid_i = indexer->score_counts_i = indexer->scale_valid_i = 1;
    indexer.ticks(cycles);
    indexer->score_valid_i = indexer->scale_valid_i = 0;
    // What is under way comes out before another command can have begun.
    indexer.ticks(20);
    indexer.run(random_weighting(random), random_pages(random, 2), random, 8);
  }
}

}  // namespace
}  // namespace nearkv::rtl_test
