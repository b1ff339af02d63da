// nkv_code_scores against the model's scores by codes: commands of every dimension and number of
// rows over pages of any codes, by planes of every number, and whose tokens may be among the best.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <iterator>
#include <memory>
#include <numeric>
#include <string>
#include <utility>
#include <vector>

#include "code_query.hpp"
#include "nkv_abi.h"
#include "scores/code_commands.hpp"
#include "scores/code_scorer.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr std::int64_t kMostThreshold = (std::int64_t{1} << 38) - 1;  // Of L of 47 bits.

/// A visit to all of a page, plane after plane, or to some granules, one after the other.
Visit any_visit(test::Random& random, std::shared_ptr<const CodedPage> page, unsigned dim,
                unsigned planes, bool whole) {
  Visit visit{.page = std::move(page)};
  const size_t plane_bytes = size_t{NKV_PAGE_TOKENS} / 8 * dim;
  const auto add = [&](unsigned plane, unsigned slice, unsigned end) {
    const auto array = plane == 0 ? visit.page->array(NKV_PAGE_ARRAY_K_SIGNS)
                                  : visit.page->array(NKV_PAGE_ARRAY_K_CODES)
                                        .subspan((plane - 1) * plane_bytes, plane_bytes);
    const size_t slice_bytes = kSliceTokens * dim / 8;
    for (size_t at = slice * slice_bytes; at < end * slice_bytes; at += NKV_BURST_BYTES) {
      visit.bursts.push_back({.bytes = array.subspan(at, NKV_BURST_BYTES),
                              .is_first = at == slice * slice_bytes,
                              .slice = slice,
                              .plane = plane});
    }
    for (unsigned s = slice; plane + 1 == planes && s < end; ++s) {
      visit.slices.push_back(s);
      visit.tokens |= (random() & 15) << kSliceTokens * s;
    }
  };
  if (whole) {
    for (unsigned plane = 0; plane < planes; ++plane) add(plane, 0, kSlices);
    return visit;
  }
  const unsigned granule = std::max(64 / std::gcd(64u, dim / 8) / kSliceTokens, 1u);
  for (unsigned slice = 0; slice < kSlices; slice += granule) {
    const bool is_last = slice + granule == kSlices;
    if (random() % 3 == 0 && !(is_last && visit.bursts.empty())) continue;
    for (unsigned plane = 0; plane < planes; ++plane) add(plane, slice, slice + granule);
  }
  return visit;
}

Task any_task(test::Random& random, unsigned dim, int top) {
  return {.query = any_query(random, test::pick(random, 1, kRows), dim),
          .gains = any_gains(random, dim, static_cast<int>(random() % 128)),
          .top = top,
          .planes = test::pick(random, 1, NKV_KEY_CODE_PLANES),
          .z = static_cast<std::uint8_t>(random() % 3 == 0 ? 0 : random() % 256)};
}

/// Thresholds about the scores of one of the visits.
void rank(test::Random& random, const std::vector<Visit>& visits, Task* task) {
  const model::CodeQuery query(task->query, task->gains, task->top);
  const Visit& visit = visits[test::pick(random, 0, static_cast<unsigned>(visits.size()) - 1)];
  const Scores scores = expected_scores(*task, query, visit);
  std::vector<std::int64_t> thresholds;
  for (size_t row = 0; row < query.rows(); ++row) {
    const unsigned token = test::pick(random, 0, NKV_PAGE_TOKENS - 1);
    const int variance =
        query.variance(row, visit.page->keys(), token, static_cast<int>(task->planes));
    const std::int64_t radius = model::search_radius(variance, task->z);
    const std::int64_t about = static_cast<std::int64_t>(random() % 3) - 1;
    thresholds.push_back(std::min(scores.logits[row][token] + radius + about, kMostThreshold));
  }
  // One row's alone, or all of them.
  const size_t row = random() % (2 * thresholds.size());
  for (size_t other = 0; row < thresholds.size() && other < thresholds.size(); ++other) {
    if (other != row) thresholds[other] = kMostThreshold;
  }
  task->thresholds = thresholds;
}

TEST(CodeScoresTest, AnyCommands) {
  test::Random random = test::case_random(1);
  Scorer unit;
  for (unsigned i = 0; i < 96; ++i) {
    SCOPED_TRACE(test::case_name(i));
    const unsigned dim = 16 * (1 + i % 8);
    const int top = static_cast<int>(test::pick(random, 0, 1000)) - 500;
    Task task = any_task(random, dim, top);
    std::vector<Visit> visits;
    const unsigned pages = test::pick(random, 1, 5);
    std::shared_ptr<const CodedPage> page;
    for (unsigned p = 0; p < pages; ++p) {
      const int own = top - static_cast<int>(random() % 100);
      page = std::make_shared<CodedPage>(any_codes(random, dim, own));
      visits.push_back(any_visit(random, page, dim, task.planes, i % 2 == 0));
    }
    if (i % 4 != 0) rank(random, visits, &task);
    unit.check(task, visits, random, kPaces[i % std::size(kPaces)]);
    if (HasFatalFailure()) return;
  }
}

TEST(CodeScoresTest, PowersFromEndToEnd) {
  test::Random random = test::case_random(2);
  Scorer unit;
  constexpr int kTops[] = {-32768, -1000, -100, 0, 100, 400, 32767};
  unsigned number = 0;
  for (const int top : {-16 * 32768, -32768, 0, 32767, 16 * 32767}) {
    for (const int own : kTops) {
      SCOPED_TRACE(std::to_string(top) + ", " + std::to_string(own));
      Task task = any_task(random, 64, top);
      std::vector<Visit> visits;
      for (const int mean_power : {-32768, -200, -20, 0, 20, 200, 32767}) {
        PageCodes codes = any_codes(random, 64, own);
        codes.mean_power = mean_power;
        visits.push_back(any_visit(random, std::make_shared<CodedPage>(codes), 64, task.planes,
                                   number++ % 2 == 0));
        if (number % 5 == 0) visits.back().tokens = 0;
      }
      for (const Visit& visit : visits) {
        // Each by itself, so that every kind of loudness is told.
        rank(random, {visit}, &task);
        unit.check(task, {visit}, random, 8);
        if (HasFatalFailure()) return;
      }
    }
  }
}

/// A query of one channel, and a page whose rows lie along it: w is 2^7 in all channels, and x is
/// 2^13.
struct Aligned {
  Task task;
  PageCodes codes;
};

Aligned aligned(test::Random& random) {
  constexpr unsigned kDim = 64;
  std::vector<float> elements(kDim);
  elements[0] = 1.0f;
  Aligned aligned{.task = {.query = query_of(elements, 1),
                           .gains = std::vector<int8_t>(kDim),
                           .planes = NKV_KEY_CODE_PLANES},
                  .codes = any_codes(random, kDim, 0)};
  const model::CodeQuery query(aligned.task.query, aligned.task.gains, 0);
  const auto& weights = query.row(0).transformed[static_cast<size_t>(aligned.codes.set)];
  std::ranges::fill(aligned.codes.factors, std::uint8_t{15});
  std::ranges::fill(aligned.codes.means, std::int8_t{0});
  std::ranges::fill(aligned.codes.planes, std::byte{0});
  for (size_t bit = 0; bit < 8 * aligned.codes.planes.size(); ++bit) {
    // 2u + 1 is 1 or -1: the first plane's bit, or all others.
    const bool is_first = bit < NKV_PAGE_TOKENS * kDim;
    const bool set = (weights.values[bit % kDim] > 0) == is_first;
    aligned.codes.planes[bit / 8] |= std::byte{set} << bit % 8;
  }
  return aligned;
}

TEST(CodeScoresTest, ResidualsAreLoudFrom128OctavesOn) {
  test::Random random = test::case_random(4);
  Scorer unit;
  Aligned aligned = rtl_test::aligned(random);
  const model::CodeQuery query(aligned.task.query, aligned.task.gains, 0);
  const auto& row = query.row(0);
  const int power = row.transformed[static_cast<size_t>(aligned.codes.set)].power;
  unsigned loud = 0;
  for (int below = 0; below < 3; ++below) {
    // m is 2^13 by these octaves.
    aligned.codes.top = 16 * (-6 - 23 - row.power - power - below);
    const auto page = std::make_shared<CodedPage>(aligned.codes);
    const auto values = page->keys().values(0, NKV_KEY_CODE_PLANES);
    const auto logit = query.residual_logit(0, page->keys(), 0, values, NKV_KEY_CODE_PLANES);
    EXPECT_EQ(logit.value, (1 << 14) >> below);
    loud += logit.is_loud;
    Visit visit = any_visit(random, page, 64, NKV_KEY_CODE_PLANES, true);
    visit.tokens |= 1;
    unit.check(aligned.task, {visit}, random, 8);
    if (HasFatalFailure()) return;
  }
  EXPECT_EQ(loud, 1u);
}

TEST(CodeScoresTest, MeansAreLoudFrom2To29On) {
  test::Random random = test::case_random(5);
  Scorer unit;
  unsigned loud = 0;
  // Many channels go to the right to reach it, one goes to the left.
  for (const unsigned channels : {64u, 1u}) {
    std::vector<float> elements(64);
    std::fill_n(elements.begin(), channels, 1.0f);
    const Task task{.query = query_of(elements, 1), .gains = std::vector<int8_t>(64)};
    const model::CodeQuery query(task.query, task.gains, 0);
    for (const int mean : {64, -64}) {
      for (int below = -1; below < 2; ++below) {
        PageCodes codes = any_codes(random, 64, 0);
        std::ranges::fill(codes.means, static_cast<std::int8_t>(mean));
        codes.mean_power = (channels == 1 ? 2 : -4) - 31 - query.row(0).power - below;
        const auto page = std::make_shared<CodedPage>(codes);
        const auto logit = query.mean_logit(0, page->keys());
        EXPECT_EQ(std::abs(logit.value), (std::int64_t{1} << 29) >> std::max(below, 0));
        loud += logit.is_loud;
        Visit visit = any_visit(random, page, 64, 1, true);
        visit.tokens |= 1;
        unit.check(task, {visit}, random, 8);
        if (HasFatalFailure()) return;
      }
    }
  }
  EXPECT_EQ(loud, 8u);
}

TEST(CodeScoresTest, CyclesAPage) {
  test::Random random = test::case_random(6);
  Scorer unit;
  for (const unsigned planes : {1u, 4u}) {
    const Task task{.query = any_query(random, kRows, 128),
                    .gains = any_gains(random, 128, 20),
                    .planes = planes};
    std::vector<Visit> visits;
    for (unsigned page = 0; page < 8; ++page) {
      PageCodes codes = any_codes(random, 128, 0);
      codes.set = 5;
      visits.push_back(any_visit(random, std::make_shared<CodedPage>(codes), 128, planes, true));
    }
    unit.check(task, visits, random, 8);
    EXPECT_EQ(unit.set_cycles(), 192u);
    EXPECT_EQ(unit.cycles_a_page(), planes == 1 ? 47u : 75u);
  }
}

TEST(CodeScoresTest, ThresholdsFromEndToEnd) {
  test::Random random = test::case_random(3);
  Scorer unit;
  for (const std::int64_t threshold : {-kMostThreshold - 1, std::int64_t{0}, kMostThreshold}) {
    for (const int own : {-400, 0, 60, 400}) {
      Task task = any_task(random, 128, 0);
      task.thresholds.assign(task.query.rows(), threshold);
      const auto page = std::make_shared<CodedPage>(any_codes(random, 128, own));
      unit.check(task, {any_visit(random, page, 128, task.planes, true)}, random, 8);
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace nearkv::rtl_test
