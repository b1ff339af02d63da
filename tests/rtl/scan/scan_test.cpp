// The plane stage against the model: midpoints, thresholds, what is read and what is sharpened, bit
// for bit, for every width of key and every kind of page.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <ctime>
#include <limits>
#include <optional>

#include "number.hpp"
#include "planes.hpp"
#include "scan_stage.hpp"

namespace nearkv::rtl_test {
namespace {

using model::Midpoints;
using model::TokenSet;

std::optional<std::uint32_t> sixteenths_of(const ScanSettings& settings) {
  return settings.statistical ? std::optional<std::uint32_t>(settings.z) : std::nullopt;
}

// What a test met, so that it can tell that it met everything.
struct Met {
  unsigned saturated_high = 0;
  unsigned saturated_low = 0;
  unsigned hidden_in_sight = 0;
  unsigned refined = 0;
  unsigned dropped = 0;
};

void count_midpoints(const Midpoints& midpoints, const ScanList& list, unsigned rows, Met* met) {
  for (std::size_t page = 0; page < list.pages().size(); ++page) {
    const auto& listed = list.pages()[page];
    if (listed.in_sight != listed.visible) ++met->hidden_in_sight;
    for (std::uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
      for (std::size_t row = 0; row < rows; ++row) {
        if (midpoints.at(row, page, token) == model::kMidpointLimit) ++met->saturated_high;
        if (midpoints.at(row, page, token) == -model::kMidpointLimit) ++met->saturated_low;
      }
    }
  }
}

void expect_same_midpoints(ScanStage& stage, const Midpoints& expected, const ScanList& list,
                           unsigned rows) {
  for (std::size_t row = 0; row < rows; ++row) {
    ASSERT_EQ(stage.reference(row), expected.reference(row)) << "row " << row;
    ASSERT_EQ(stage.shift(row), expected.shift(row)) << "row " << row;
  }
  for (std::size_t page = 0; page < list.pages().size(); ++page) {
    for (std::uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
      for (std::size_t row = 0; row < rows; ++row) {
        ASSERT_EQ(stage.midpoint(row, page, token), expected.at(row, page, token))
            << "row " << row << " page " << page << " token " << token;
      }
    }
  }
}

// Visible tokens count whose midpoints are not saturated; without any, highest is below lowest.
void expect_same_range(ScanStage& stage, const Midpoints& expected, const ScanList& list,
                       unsigned rows) {
  for (std::size_t row = 0; row < rows; ++row) {
    std::pair<int, int> range{-model::kMidpointLimit, model::kMidpointLimit};
    for (std::size_t page = 0; page < list.pages().size(); ++page) {
      for (std::uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
        const int midpoint = expected.at(row, page, token);
        if (!model::has_token(list.pages()[page].visible, token) ||
            std::abs(midpoint) == model::kMidpointLimit) {
          continue;
        }
        range = {std::max(range.first, midpoint), std::min(range.second, midpoint)};
      }
    }
    ASSERT_EQ(stage.range(row), range) << "row " << row;
  }
}

// Step 1 of section 6, and BEST for `count` tokens. The model's best() counts all rows.
TokenSet expected_best(const Midpoints& midpoints, const ScanList& list, unsigned rows,
                       unsigned count) {
  TokenSet best = list.pages().none();
  for (std::size_t row = 0; row < rows; ++row) {
    const int least = midpoints.threshold(row, count);
    for (std::size_t page = 0; page < best.size(); ++page) {
      for (std::uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
        if ((midpoints.at(row, page, token) + 32768) >> 4 >= least) {
          best[page] |= model::token_bit(token);
        }
      }
      best[page] &= list.pages()[page].visible;
    }
  }
  return best;
}

// Step 3 of section 6.
TokenSet expected_alive(const Midpoints& midpoints, const TokenSet& among,
                        const std::array<int, kRows>& tau, const ScanSettings& settings,
                        int planes) {
  TokenSet alive = among;
  for (std::size_t page = 0; page < among.size(); ++page) {
    model::TokenMask kept = 0;
    for (std::size_t row = 0; row < settings.rows; ++row) {
      const auto radius = midpoints.stored_radius(row, page, planes, sixteenths_of(settings));
      for (std::uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
        const int midpoint = midpoints.at(row, page, token);
        if (midpoint == model::kMidpointLimit || midpoint + radius >= tau[row]) {
          kept |= model::token_bit(token);
        }
      }
    }
    alive[page] &= kept;
  }
  return alive;
}

int expected_tau(const Midpoints& midpoints, std::size_t row, std::int64_t tau) {
  const std::int64_t above =
      model::floor_shift(tau, NKV_PLANE_WEIGHT_SHIFT) - midpoints.reference(row);
  return static_cast<int>(std::clamp<std::int64_t>(model::floor_shift(above, midpoints.shift(row)),
                                                   -model::kMidpointLimit, model::kMidpointLimit));
}

// The score of the k-th best seed of a row, as step 2 has it.
std::int64_t kth_score(const ScanList& list, const TokenSet& seeds, std::size_t row,
                       std::size_t k) {
  std::vector<std::int64_t> scores;
  for (std::size_t page = 0; page < seeds.size(); ++page) {
    for (std::uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
      if (model::has_token(seeds[page], token)) scores.push_back(list.score(row, page, token));
    }
  }
  if (scores.size() < k) return std::numeric_limits<std::int64_t>::min();
  std::nth_element(scores.begin(), scores.begin() + static_cast<std::ptrdiff_t>(k) - 1,
                   scores.end(), std::greater<>());
  return scores[k - 1];
}

// A score that the better ones of a few random tokens may just reach, their radius included.
std::int64_t reachable_score(const Midpoints& midpoints, const ScanList& list, std::size_t row,
                             const ScanSettings& settings, test::Random& random) {
  std::int64_t highest = -model::kMidpointLimit;
  for (unsigned i = 0; i < 8; ++i) {
    const std::size_t page = random() % list.pages().size();
    const auto radius = midpoints.stored_radius(row, page, static_cast<int>(settings.planes),
                                                sixteenths_of(settings));
    highest = std::max(highest, midpoints.at(row, page, test::pick(random, 0, 63)) + radius);
  }
  const std::int64_t units =
      highest * (std::int64_t{1} << midpoints.shift(row)) + midpoints.reference(row);
  constexpr std::int64_t kMostUnits = (std::int64_t{1} << 27) - 1;
  return std::clamp(units, -kMostUnits, kMostUnits) * (std::int64_t{1} << NKV_PLANE_WEIGHT_SHIFT);
}

// A whole TOPK up to what is read in the end: without planes, up to its seeds.
void search(ScanStage& stage, const ScanList& list, const ScanSettings& settings, unsigned top_k,
            test::Random& random, Met* met = nullptr) {
  Met unused;
  if (met == nullptr) met = &unused;
  stage.start(list, settings);
  stage.scan();
  Midpoints expected(list.pages(), list.query(), list.key_exponent(),
                     static_cast<int>(settings.planes));
  expect_same_midpoints(stage, expected, list, settings.rows);
  expect_same_range(stage, expected, list, settings.rows);
  if (testing::Test::HasFatalFailure()) return;
  count_midpoints(expected, list, settings.rows, met);

  for (const unsigned count : {2 * top_k, 1U, 8192U}) {
    const auto thresholds = stage.thresholds(count);
    for (std::size_t row = 0; row < settings.rows; ++row) {
      ASSERT_EQ(thresholds[row], expected.threshold(row, count)) << "row " << row << " n " << count;
    }
  }
  stage.thresholds(2 * top_k);
  const TokenSet seeds = stage.best(list.pages().visible());
  ASSERT_EQ(seeds, expected_best(expected, list, settings.rows, 2 * top_k));
  if (settings.planes == 0) return;

  // The real thing, or any score, or such that about half of the tokens stay alive.
  std::array<std::int64_t, kRows> tau{};
  const bool halves = random() % 2 == 0;
  for (std::size_t row = 0; row < kRows; ++row) {
    switch (halves ? 10 : test::pick(random, 0, 9)) {
      case 0:
        tau[row] = std::numeric_limits<std::int64_t>::min();
        break;
      case 1:
        tau[row] = static_cast<std::int64_t>(random()) >> 4;
        break;
      case 10:
        tau[row] = reachable_score(expected, list, row, settings, random);
        break;
      default:
        tau[row] = kth_score(list, seeds, row, top_k);
    }
  }
  const auto frozen = stage.freeze(tau);
  for (std::size_t row = 0; row < settings.rows; ++row) {
    ASSERT_EQ(frozen[row], expected_tau(expected, row, tau[row])) << "row " << row;
  }

  TokenSet among = list.pages().visible();
  for (std::size_t page = 0; page < among.size(); ++page) among[page] &= ~seeds[page];
  TokenSet alive =
      expected_alive(expected, among, frozen, settings, static_cast<int>(settings.planes));
  ASSERT_EQ(stage.alive(among, settings.planes), alive);
  for (unsigned plane = settings.planes + 1; plane <= NKV_KEY_PLANES; ++plane) {
    // Now and then most of them are left out, so that granules and pages are skipped; and seeds
    // come along, for among others no midpoint is at its upper limit.
    const auto kind = random() % 4;
    for (std::size_t page = 0; page < alive.size(); ++page) {
      if (kind == 0) alive[page] &= random() & random() & random();
      if (kind == 1) alive[page] |= list.pages()[page].visible & random();
    }
    stage.refine(alive, plane);
    for (std::size_t page = 0; page < alive.size(); ++page) {
      if (alive[page] == 0) continue;
      const auto weights = expected.weights_of(page);
      for (std::uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
        if (!model::has_token(alive[page], token)) continue;
        expected.sharpen(page, token, static_cast<int>(plane), weights);
      }
    }
    expect_same_midpoints(stage, expected, list, settings.rows);
    if (testing::Test::HasFatalFailure()) return;
    const TokenSet still =
        expected_alive(expected, alive, frozen, settings, static_cast<int>(plane));
    ASSERT_EQ(stage.alive(alive, plane), still) << "plane " << plane;
    met->refined += static_cast<unsigned>(model::count_tokens(alive));
    met->dropped += static_cast<unsigned>(model::count_tokens(alive) - model::count_tokens(still));
    alive = still;
  }
}

ScanPace random_pace(test::Random& random) {
  return {.bursts = kPaces[random() % 3],
          .records = kPaces[random() % 3],
          .chosen = kPaces[random() % 3],
          .digests_ahead = test::pick(random, 0, 3),
          .scratch = kPaces[random() % 3],
          .scratch_cycles = test::pick(random, 0, 100)};
}

TEST(ScanTest, SearchesEveryWidthOfKey) {
  ScanStage stage(1);
  for (std::uint32_t head_dim = 16; head_dim <= 128; head_dim += 16) {
    SCOPED_TRACE("head_dim " + std::to_string(head_dim));
    test::Random random = test::case_random(head_dim);
    const ScanList list({.head_dim = head_dim, .pages = 5}, random);
    search(stage, list, {.planes = 1 + head_dim / 16 % 4}, 10, random);
    if (HasFatalFailure()) return;
  }
}

constexpr std::array kKinds{Keys::kNormal, Keys::kBiased, Keys::kAnyBits, Keys::kForged,
                            Keys::kZero};

TEST(ScanTest, TakesDigestsAloneBetweenOtherScans) {
  ScanStage stage(12);
  Met met;
  for (unsigned i = 0; i < 40; ++i) {
    SCOPED_TRACE(test::case_name(i));
    test::Random random = test::case_random(i);
    const std::uint32_t pages = test::pick(random, 1, 12);
    const std::uint32_t tokens = test::pick(random, pages * 64 - 63, pages * 64);
    const ScanList list({.head_dim = 16 * test::pick(random, 1, 8),
                         .pages = pages,
                         .keys = kKinds[i % kKinds.size()],
                         .visibility = {.tokens = tokens, .window = 0, .sinks = 0}},
                        random);
    stage.set_pace(random_pace(random));
    const unsigned planes = random() % 4 == 0 ? 2 : 0;
    search(stage, list, {.rows = test::pick(random, 1, kRows), .planes = planes},
           test::pick(random, 1, 40), random, &met);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(met.saturated_high, 0U);
}

TEST(ScanTest, TakesAPageOfDigestsIn32Cycles) {
  constexpr unsigned kPages = 256;
  test::Random random = test::case_random(7);
  const ScanList list({.pages = kPages}, random);
  ScanStage stage(7);
  stage.start(list, {.planes = 0});
  stage.scan();
  EXPECT_EQ(stage.op_bursts(), kPages * 4);
  EXPECT_LE(stage.op_cycles(), kPages * 32 + 100);
}

TEST(ScanTest, SearchesWhateverThePagesHold) {
  ScanStage stage(2);
  Met met;
  for (unsigned i = 0; i < 60; ++i) {
    SCOPED_TRACE(test::case_name(i));
    test::Random random = test::case_random(i);
    const std::uint32_t pages = test::pick(random, 1, 9);
    const std::uint32_t tokens = test::pick(random, pages * 64 - 63, pages * 64);
    const std::uint32_t window = random() % 2 == 0 ? 0 : test::pick(random, 1, tokens);
    const ScanList list(
        {.head_dim = 16 * test::pick(random, 1, 8),
         .pages = pages,
         .keys = kKinds[i % kKinds.size()],
         .visibility = {.tokens = tokens, .window = window, .sinks = test::pick(random, 0, 8)}},
        random);
    stage.set_pace(random_pace(random));
    search(stage, list,
           {.rows = test::pick(random, 1, kRows),
            .planes = test::pick(random, 1, NKV_KEY_PLANES),
            .statistical = random() % 2 == 0,
            .z = test::pick(random, 1, 255)},
           test::pick(random, 1, 40), random, &met);
    if (HasFatalFailure()) return;
  }
  std::printf(
      "saturated above %u, below %u; pages with non-finite keys %u; refined %u, of these dropped "
      "%u\n",
      met.saturated_high, met.saturated_low, met.hidden_in_sight, met.refined, met.dropped);
  EXPECT_GT(met.saturated_high, 0U);
  EXPECT_GT(met.saturated_low, 0U);
  EXPECT_GT(met.hidden_in_sight, 0U);
  EXPECT_GT(met.dropped, 0U);
}

// A digest and two planes of 128 channels are 36 bursts, more than the 32 cycles that a page takes
// in each part of the stage.
TEST(ScanTest, TakesABurstPerCycle) {
  constexpr unsigned kPages = 256;
  constexpr unsigned kEnds = 100;  // Until the first page has tables, and after the last one.
  for (unsigned planes = 1; planes <= NKV_KEY_PLANES; ++planes) {
    test::Random random = test::case_random(planes);
    const ScanList list({.pages = kPages}, random);
    ScanStage stage(planes);
    stage.start(list, {.planes = planes, .statistical = true});
    const std::clock_t begin = std::clock();
    stage.scan();
    const double time = static_cast<double>(std::clock() - begin) / CLOCKS_PER_SEC;
    const unsigned bursts = kPages * (4 + 16 * planes);
    ASSERT_EQ(stage.op_bursts(), bursts);
    std::printf("%u planes: %.2f cycles a page of %u bursts; simulated at %.0f kHz\n", planes,
                static_cast<double>(stage.op_cycles()) / kPages, bursts / kPages,
                static_cast<double>(stage.op_cycles()) / time / 1000);
    EXPECT_LE(stage.op_cycles(), std::max(bursts, kPages * 32) * 51 / 50 + kEnds);
    EXPECT_GE(stage.op_cycles(), bursts);
  }
}

TEST(ScanTest, TakesTheCyclesItSays) {
  constexpr unsigned kPages = 64;
  constexpr unsigned kEnds = 100;
  // Behind those that stay: midpoints come back, a burst a cycle, and weights are folded again.
  constexpr unsigned kKept = std::min(kPages, kKeptPages), kLeft = kPages - kKept;
  constexpr unsigned kTurns = kLeft == 0 ? 0 : 100;
  test::Random random = test::case_random(6);
  const ScanList list({.pages = kPages}, random);
  ScanStage stage(6);
  stage.start(list, {});
  stage.scan();
  stage.thresholds(8192);
  EXPECT_LE(stage.op_cycles(), 142U);
  stage.thresholds(1);
  EXPECT_LE(stage.op_cycles(), 142U);
  TokenSet some = list.pages().visible();
  stage.best(some);
  EXPECT_LE(stage.op_cycles(), 4 * kKept + 16 * kLeft + 16);
  stage.freeze({});
  EXPECT_LE(stage.op_cycles(), 14U);
  for (std::size_t page = 0; page < kPages; page += 2) some[page] = 0;
  stage.alive(some, 2);
  EXPECT_LE(stage.op_cycles(), 4 * kKept / 2 + 16 * kLeft / 2 + kPages / 2 + 16);
  stage.refine(list.pages().visible(), 3);
  EXPECT_EQ(stage.op_bursts(), 16 * kPages + 4 * kLeft);
  EXPECT_LE(stage.op_cycles(), 16 * kKept + 32 * kLeft + kEnds + kTurns);
  TokenSet few = some;
  for (model::TokenMask& tokens : few) tokens &= 0xff;
  stage.refine(few, 4);
  EXPECT_LE(stage.op_cycles(), 16 * kKept / 2 + 32 * kLeft / 2 + kEnds + kTurns);
}

// And more than there are frames behind it.
TEST(ScanTest, KeepsWhatStaysAndWhatLeaves) {
  test::Random random = test::case_random(5);
  const ScanList list({.pages = kKeptPages + 70}, random);
  ScanStage stage(5);
  search(stage, list, {.planes = 3}, 4096, random);
}

TEST(ScanTest, ForgetsAScanThatIsCutOff) {
  test::Random random = test::case_random(3);
  const ScanList list({.head_dim = 80, .pages = 6}, random);
  ScanStage stage(3);
  for (const unsigned cycles : {1U, 40U, 75U, 111U, 160U}) {
    for (const bool by_reset : {false, true}) {
      SCOPED_TRACE(std::to_string(cycles) + (by_reset ? " cycles, reset" : " cycles, abort"));
      stage.start(list, {.statistical = true});
      stage.begin_scan_only(cycles);
      by_reset ? stage.reset() : stage.abort();
      search(stage, list, {.statistical = true}, 8, random);
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace nearkv::rtl_test
