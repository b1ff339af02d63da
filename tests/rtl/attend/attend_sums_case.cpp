#include <gtest/gtest.h>

#include <algorithm>

#include "attend/attend_sums.hpp"
#include "delta4.hpp"
#include "number.hpp"
#include "support/elements.hpp"

namespace nearkv::rtl_test {

namespace {

constexpr unsigned kTokens = NKV_PAGE_TOKENS;

std::int64_t signed_below(test::Random& random, unsigned bits) {
  return static_cast<std::int64_t>(random()) >> (63 - bits);
}

}  // namespace

std::vector<RowSums> SumsCase::sums() const {
  const model::LogitScale of_scores(scale, soft_cap, key_exponent);
  std::vector<RowSums> rows(kSumRows, RowSums(value_dim));
  for (const SummedPage& page : pages) {
    for (unsigned row = 0; row < kSumRows; ++row) {
      RowSums& sums = rows[row];
      const auto logit_of = [&](const ScoredToken& token) {
        return of_scores.logit(token.scores[row], query_exponents[row]);
      };
      std::int64_t largest = sums.reference;
      for (const ScoredToken& token : page.scores) {
        if (!page.counts(token.token)) continue;
        largest = std::max(largest, model::integer_part(logit_of(token)));
      }
      sums.raise(static_cast<int>(std::min<std::int64_t>(largest - sums.reference, 63)));
      sums.reference = largest;
      for (const ScoredToken& token : page.scores) {
        if (!page.counts(token.token)) continue;
        sums.add(model::weight_of(logit_of(token), sums.reference), page.values[token.token]);
      }
    }
  }
  return rows;
}

namespace {

void fill_rows(test::Random& random, const SumsCase& with, SummedPage& page) {
  std::vector<std::uint32_t> patterns(std::size_t{kTokens} * with.stored_dim);
  // Exponents 118 to 131, so that DELTA4 holds them.
  for (std::uint32_t& pattern : patterns) {
    pattern = static_cast<std::uint32_t>((random() & 0x807f) | (118 + random() % 14) << 7);
  }
  if (page.form == NKV_ROW_FORM_DELTA4) {
    const std::vector<std::uint16_t> bf16(patterns.begin(), patterns.end());
    const auto encoded = model::encode_delta4(bf16, with.stored_dim);
    ASSERT_TRUE(encoded.has_value());
    page.rows = encoded->rows;
    page.exponents = encoded->exponents;
  } else {
    page.rows = test::to_bytes(NKV_DTYPE_BF16, patterns);
  }
  for (unsigned token = 0; token < kTokens; ++token) {
    page.values.emplace_back();
    for (unsigned c = 0; c < with.value_dim; ++c) {
      const auto number = model::decode_binary32(patterns[token * with.stored_dim + c] << 16);
      page.values.back().push_back(model::value_integer(number, with.value_exponent));
    }
  }
}

std::uint64_t some_tokens(test::Random& random) {
  switch (random() % 4) {
    case 0:
      return 0;
    case 1:
      return random() & random() & random() & random();
    case 2:
      return ~std::uint64_t{0};
    default:
      return random();
  }
}

}  // namespace

SumsCase random_sums(test::Random& random, std::size_t pages, bool wild) {
  SumsCase made;
  made.values_are_keys = random() % 4 == 0;
  if (random() % 4 == 0) made.soft_cap = 0.5F * static_cast<float>(1 + random() % 80);
  made.value_dim = 16 * (1 + static_cast<unsigned>(random() % 8));
  made.stored_dim = made.value_dim;
  if (made.values_are_keys) made.stored_dim += 16 * static_cast<unsigned>(random() % 2);
  made.stored_dim = std::min(made.stored_dim, 128U);
  const bool is_delta4 = random() % 2 == 0;
  for (int& exponent : made.query_exponents) {
    exponent = wild ? 100 + static_cast<int>(random() % 80) : 127;
  }
  while (made.pages.size() < pages) {
    SummedPage page;
    page.form = is_delta4 && random() % 8 != 0 ? NKV_ROW_FORM_DELTA4 : NKV_ROW_FORM_RAW;
    fill_rows(random, made, page);
    page.tokens = some_tokens(random);
    if (random() % 4 == 0) page.nonfinite = page.tokens & random();
    const auto score_bits = 50 + static_cast<unsigned>(random() % (wild ? 9 : 5));
    for (unsigned token = 0; token < kTokens; ++token) {
      ScoredToken scored{token, {}};
      for (std::int64_t& score : scored.scores) score = signed_below(random, score_bits);
      page.scores.push_back(scored);
    }
    made.pages.push_back(std::move(page));
  }
  return made;
}

}  // namespace nearkv::rtl_test
