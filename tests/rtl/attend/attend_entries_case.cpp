#include <gtest/gtest.h>

#include <algorithm>
#include <bit>

#include "attend/attend_entries.hpp"
#include "delta4.hpp"
#include "number.hpp"
#include "support/elements.hpp"
#include "tail_page.hpp"

namespace nearkv::rtl_test {

namespace {

constexpr unsigned kTokens = NKV_PAGE_TOKENS;
constexpr std::int64_t kLogitLimit = (std::int64_t{1} << 47) - 1;

bool has(std::uint64_t tokens, unsigned token) { return (tokens >> token & 1) != 0; }

std::int64_t signed_below(test::Random& random, unsigned bits) {
  return static_cast<std::int64_t>(random()) >> (63 - bits);
}

}  // namespace

std::vector<std::int32_t> EntryCase::mean(const EntryPage& page) const {
  std::vector<std::int64_t> sums;
  for (unsigned c = 0; c < value_dim; ++c) {
    sums.push_back(
        model::floor_shift(std::int64_t{page.sums[c]}, value_exponent - page.value_exponent));
    for (unsigned token = 0; token < kTokens && !is_bounded; ++token) {
      if (has(page.tokens, token)) sums.back() -= page.values[token][c];
    }
  }
  const int read = is_bounded ? 0 : std::popcount(page.tokens);
  return model::mean_value(sums, std::int64_t{kTokens} - read);
}

std::vector<model::SampledSums> EntryCase::sums() const {
  const model::LogitScale of_scores(scale, soft_cap, key_exponent);
  std::vector<model::SampledSums> rows(kEntryRows, model::SampledSums(value_dim));
  for (const EntryPage& page : pages) {
    const std::vector<std::int32_t> mean_of_page =
        page.has_sums() ? mean(page) : std::vector<std::int32_t>();
    for (unsigned row = 0; row < kEntryRows; ++row) {
      const auto logit_of = [&](const EntryToken& token) {
        return of_scores.logit(token.scores[row], query_exponents[row]);
      };
      std::int64_t largest = model::kNoReference;
      if (page.has_rest && page.rests[row]) largest = page.rests[row]->whole;
      auto sampled = page.sample.begin();
      for (const EntryToken& token : page.scores) {
        if (!has(page.tokens & ~page.nonfinite, token.token)) continue;
        std::int64_t logit = logit_of(token);
        if (has(page.sampled, token.token)) {
          logit = model::SampledSums::scaled(std::max(logit, sampled->approximate[row]),
                                             sampled->halvings);
          ++sampled;
        }
        largest = std::max(largest, model::integer_part(logit));
      }
      model::SampledSums& sums = rows[row];
      sums.raise_reference(largest);
      sampled = page.sample.begin();
      for (const EntryToken& token : page.scores) {
        if (!has(page.tokens & ~page.nonfinite, token.token)) continue;
        model::SampledValues values{.own = page.values[token.token], .negative_mean = mean_of_page};
        values.own.resize(value_dim);
        for (std::int32_t& channel : values.negative_mean) channel = -channel;
        if (has(page.sampled, token.token)) {
          sums.add_sampled(logit_of(token), sampled->approximate[row], sampled->halvings,
                           sampled->group, values);
          ++sampled;
        } else {
          sums.add(model::weight_of(logit_of(token), sums.reference()), values.own);
        }
      }
      if (page.has_rest && page.rests[row]) {
        sums.add({.mantissa = page.rests[row]->weight,
                  .shift = sums.reference() - page.rests[row]->whole},
                 mean_of_page);
      }
    }
  }
  return rows;
}

namespace {

void fill_rows(test::Random& random, const EntryCase& with, EntryPage& page) {
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
  for (unsigned c = 0; c < with.value_dim; ++c) {
    page.sums.push_back(static_cast<std::int32_t>(signed_below(random, 30)));
  }
}

void choose_tokens(test::Random& random, const EntryCase& with, EntryPage& page) {
  const auto some = [&random] {
    switch (random() % 4) {
      case 0:
        return std::uint64_t{0};
      case 1:
        return random() & random() & random() & random();
      case 2:
        return ~std::uint64_t{0};
      default:
        return random();
    }
  };
  page.tokens = some();
  if (!with.is_chosen) return;
  if (with.is_bounded) page.sampled = random() % 4 == 0 ? page.tokens : page.tokens & some();
  page.has_rest = page.tokens == 0 || random() % 2 == 0;
  // A page has a rest, or tokens that are not read.
  if (!with.is_bounded && page.has_rest) page.tokens &= ~(std::uint64_t{1} << random() % kTokens);
}

}  // namespace

EntryCase random_entries(test::Random& random, std::size_t pages, bool is_chosen, bool is_bounded,
                         bool wild) {
  EntryCase made;
  made.is_chosen = is_chosen;
  made.is_bounded = is_bounded;
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
  const model::LogitScale of_scores(made.scale, made.soft_cap, made.key_exponent);
  while (made.pages.size() < pages) {
    EntryPage page;
    page.value_exponent = made.value_exponent - static_cast<int>(random() % 4);
    page.form = is_delta4 && random() % 8 != 0 ? NKV_ROW_FORM_DELTA4 : NKV_ROW_FORM_RAW;
    fill_rows(random, made, page);
    choose_tokens(random, made, page);
    if (random() % 4 == 0) page.nonfinite = page.tokens & ~page.sampled & random();
    const auto score_bits = 50 + static_cast<unsigned>(random() % (wild ? 9 : 5));
    for (unsigned token = 0; token < kTokens; ++token) {
      if (is_chosen && !has(page.tokens, token)) continue;
      EntryToken scored{token, {}};
      for (std::int64_t& score : scored.scores) score = signed_below(random, score_bits);
      page.scores.push_back(scored);
      if (!has(page.sampled, token)) continue;
      EntrySample sampled{
          token, static_cast<int>(random() % 17), 1 + static_cast<unsigned>(random() % 7), {}};
      for (unsigned row = 0; row < kEntryRows; ++row) {
        sampled.approximate[row] =
            std::clamp(of_scores.logit(scored.scores[row], made.query_exponents[row]) +
                           signed_below(random, 18),
                       -kLogitLimit, kLogitLimit);
      }
      page.sample.push_back(sampled);
    }
    for (auto& rest : page.rests) {
      if (random() % 8 == 0) continue;
      rest = {signed_below(random, 4), (1 << 17) + static_cast<std::int64_t>(random() % (1 << 17))};
    }
    made.pages.push_back(std::move(page));
  }
  return made;
}

}  // namespace nearkv::rtl_test
