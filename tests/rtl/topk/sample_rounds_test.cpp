// nkv_sample_rounds against section 8, steps 2, 3 and 6: which pages are visited with which tokens,
// what goes along with the sampled ones, and when it ends how; by the model's levels and draws.
#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <deque>
#include <optional>
#include <vector>

#include "Vnkv_sample_rounds_bench.h"
#include "nkv_abi.h"
#include "sample_rounds_case.hpp"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kWordTokens = 16;
constexpr std::uint64_t kLogitMask = (std::uint64_t{1} << 48) - 1;
constexpr std::uint64_t kLogMask = (std::uint64_t{1} << 42) - 1;

/// How often what has been tried.
struct Tally {
  std::array<unsigned, 5> rounds{};
  unsigned dense = 0;
  unsigned capped = 0;
  unsigned state_only = 0;

  [[nodiscard]] bool all_tried() const {
    return *std::ranges::min_element(rounds.begin() + 1, rounds.end()) > 0 && dense > 0 &&
           capped > 0 && state_only > 0;
  }
};

class SampleRounds : public Simulation<Vnkv_sample_rounds_bench> {
 public:
  SampleRounds() { reset(); }

  void run(const RoundsCase& with, test::Random& random, unsigned pace, Tally* tally) {
    set_up(with);
    if (testing::Test::HasFailure()) return;
    ExpectedRounds expected(with);
    std::optional<Measured> last;
    while (true) {
      const ExpectedRounds::Judgement judgement = expected.draw(last);
      SCOPED_TRACE(testing::Message() << "round " << expected.round());
      const bool first = expected.round() == 1;
      if (judgement == ExpectedRounds::Judgement::kStop && first) {
        expected.keep_state_only();
        ++tally->state_only;
      } else if (judgement != ExpectedRounds::Judgement::kRead) {
        const bool dense = judgement == ExpectedRounds::Judgement::kDense;
        ++(dense ? tally->dense : tally->capped);
        return expect_end(with, random, pace, dense, !dense, expected.round() - 1);
      }
      take(with, expected, random, pace);
      if (testing::Test::HasFailure()) return;
      if (judgement == ExpectedRounds::Judgement::kStop) {
        return expect_end(with, random, pace, false, true, 0);
      }
      last = measure(with, random, pace);
      ++tally->rounds.at(expected.round());
      const bool is_last = expected.round() == 4;
      if (last->all_within) return expect_end(with, random, pace, false, false, expected.round());
      if (is_last) {
        const bool capped = with.byte_cap != 0;
        ++(capped ? tally->capped : tally->dense);
        return expect_end(with, random, pace, !capped, capped, 4);
      }
    }
  }

 private:
  void set_up(const RoundsCase& with) {
    auto& bench = **this;
    // Nothing of the case before is on its way when it is forgotten.
    ticks(64);
    bench.clear_i = 1;
    tick();
    bench.clear_i = 0;
    granted_ = {-1, -1};
    bench.scale_i = std::bit_cast<std::uint32_t>(with.scale);
    bench.key_exponent_i = static_cast<std::uint8_t>(with.key_exponent);
    nkv_attend_command command{};
    command.group = static_cast<std::uint8_t>(with.rows);
    command.head_dim = with.head_dim;
    command.value_dim = with.value_dim;
    command.byte_cap = with.byte_cap;
    command.seed = with.seed;
    std::memcpy(bench.command_i.data(), &command, sizeof(command));
    bench.tokens_i = static_cast<std::uint32_t>(with.pages.size()) * kTokens;
    bench.window_i = 0;
    bench.sinks_i = 0;
    bench.scan_bursts_i = with.scan_bursts;
    bench.report_log_error_i = static_cast<std::uint64_t>(with.log_error) & kLogMask;
    for (unsigned row = 0; row < kRows; ++row) {
      const auto [highest, lowest] = with.range(row);
      bench.query_exponent_i[row] = static_cast<std::uint8_t>(with.query_exponents[row]);
      bench.reference_i[row] = static_cast<std::uint32_t>(with.references[row]) & 0x1fffffff;
      bench.shift_i[row] = static_cast<std::uint8_t>(with.shifts[row]);
      bench.highest_i[row] = static_cast<std::uint16_t>(highest);
      bench.lowest_i[row] = static_cast<std::uint16_t>(lowest);
    }
    bench.set_i = 1;
    tick();
    bench.set_i = 0;
    ASSERT_TRUE(tick_until([&] { return bench.set_o != 0; }, 70));
    tick();
    bench.build_i = 1;
    tick();
    bench.build_i = 0;
    ASSERT_TRUE(tick_until([&] { return bench.built_o != 0; }, 1100));
    for (std::size_t page = 0; page < with.pages.size(); ++page) {
      bench.scanned_i = 1;
      bench.body_page_i = static_cast<std::uint16_t>(page);
      bench.body_tokens_i = with.pages[page].visible | 0xF0;
      bench.body_nonfinite_i = ~with.pages[page].visible & 0xF0;
      bench.body_k_form_i = with.pages[page].form.k_form;
      bench.body_v_form_i = with.pages[page].form.v_form;
      bench.body_dtype_i = with.pages[page].form.dtype;
      tick();
    }
    bench.scanned_i = 0;
    bench.report_taken_i = 1;
    bench.rest_ready_i = 1;
    ticks(3);
    bench.start_i = 1;
    tick();
    bench.start_i = 0;
  }

  /// A cycle, the memory of midpoints and the taker of rests being willing now and then.
  void step(const RoundsCase& with, test::Random& random, unsigned pace) {
    (*this)->read_ready_i = is_willing(random, pace);
    const int word = granted_.front();
    if (word >= 0) {
      for (unsigned row = 0; row < kRows; ++row) {
        for (unsigned token = 0; token < kWordTokens; ++token) {
          (*this)->midpoint_i[row][token] = static_cast<std::uint16_t>(
              with.pages[static_cast<std::size_t>(word) / 4]
                  .midpoints[row][static_cast<unsigned>(word) % 4 * kWordTokens + token]);
        }
      }
    }
    settle();
    granted_.push_back((*this)->read_o != 0 && (*this)->read_ready_i != 0
                           ? static_cast<int>((*this)->read_page_o * 4 + (*this)->read_word_o)
                           : -1);
    granted_.pop_front();
    tick();
  }

  /// Takes a round's visits and sampled tokens, which must be as expected.
  void take(const RoundsCase& with, const ExpectedRounds& expected, test::Random& random,
            unsigned pace) {
    auto& bench = **this;
    std::size_t visits = 0;
    std::size_t sampled = 0;
    std::size_t rests = 0;
    const auto wanted_rests = static_cast<std::size_t>(
        expected.round() == 1 ? std::ranges::count_if(expected.visits(), &RoundsVisit::sums) : 0);
    bool cleared = false;
    bool cleared_groups = false;
    int looked_up = -1;
    for (std::uint64_t limit = with.pages.size() * 800 + 20000;; --limit) {
      if (limit == 0) {
        ADD_FAILURE() << "hangs after " << visits << " visits of " << expected.visits().size()
                      << ", " << sampled << " samples of " << expected.sampled().size() << " and "
                      << rests << " rests of " << wanted_rests;
        return;
      }
      bench.visit_ready_i = is_willing(random, pace);
      bench.sampled_ready_i = is_willing(random, pace);
      settle();
      if (looked_up >= 0) {
        EXPECT_EQ(bench.orders_page_sampled_o,
                  expected.visits()[static_cast<std::size_t>(looked_up)].sampled);
        looked_up = -1;
      }
      EXPECT_EQ(bench.done_o, 0) << "planned " << bench.planned_o << " for " << expected.planned();
      cleared |= bench.pass_clear_o != 0;
      cleared_groups |= bench.orders_clear_groups_o != 0;
      if (bench.visit_valid_o != 0 && bench.visit_ready_i != 0) {
        if (visits == expected.visits().size()) {
          ADD_FAILURE() << "one visit too many: page " << bench.visit_page_o;
          return;
        }
        const RoundsVisit& wanted = expected.visits()[visits];
        EXPECT_EQ(bench.visit_page_o, wanted.page);
        EXPECT_EQ(bench.visit_tokens_o, wanted.tokens) << "page " << wanted.page;
        EXPECT_EQ(bench.visit_sums_o != 0, wanted.sums) << "page " << wanted.page;
        EXPECT_EQ(bench.planned_o, expected.planned());
        EXPECT_EQ(bench.orders_page_rest_o != 0, expected.round() == 1);
        bench.body_page_i = static_cast<std::uint16_t>(wanted.page);
        looked_up = static_cast<int>(visits);
        ++visits;
      }
      if (bench.orders_sampled_valid_o != 0 && bench.sampled_ready_i != 0) {
        if (sampled == expected.sampled().size()) {
          ADD_FAILURE() << "one sample too many";
          return;
        }
        const RoundsSampled& wanted = expected.sampled()[sampled++];
        SCOPED_TRACE(testing::Message()
                     << "sample " << sampled << " of " << expected.sampled().size());
        EXPECT_EQ(bench.orders_halvings_o, wanted.halvings);
        EXPECT_EQ(bench.orders_group_o, wanted.group);
        for (unsigned row = 0; row < with.rows; ++row) {
          EXPECT_EQ(bench.orders_logit_o[row],
                    static_cast<std::uint64_t>(wanted.logits[row]) & kLogitMask);
        }
      }
      rests += bench.rest_valid_o;
      if (testing::Test::HasFailure()) return;
      const bool ended = bench.visits_end_o != 0;
      step(with, random, pace);
      if (ended && sampled == expected.sampled().size() && rests == wanted_rests) break;
    }
    EXPECT_EQ(visits, expected.visits().size());
    EXPECT_TRUE(cleared);
    EXPECT_EQ(cleared_groups, expected.round() > 1);
    // What it read: all counted as values but what round 1's sums took.
    std::uint64_t bursts = 0;
    for (const RoundsVisit& visit : expected.visits()) {
      bursts += with.bursts(with.pages[visit.page], visit.tokens, visit.sums);
    }
    bench.pass_bursts_i = static_cast<std::uint32_t>(bursts / 2);
    bench.pass_value_bursts_i = static_cast<std::uint32_t>(bursts / 4);
    bench.pass_sum_bursts_i = static_cast<std::uint32_t>(bursts - bursts / 2 - bursts / 4);
    bench.report_taken_i = 0;
    bench.pass_done_i = 1;
    bench.visit_ready_i = 0;
    step(with, random, pace);
    step(with, random, pace);
    bench.pass_done_i = 0;
    EXPECT_EQ(bench.orders_measure_o, 0);
    bench.report_taken_i = 1;
  }

  Measured measure(const RoundsCase& with, test::Random& random, unsigned pace) {
    auto& bench = **this;
    for (unsigned i = 0; bench.orders_measure_o == 0; ++i) {
      if (i > 100) {
        ADD_FAILURE() << "nothing is measured";
        return {};
      }
      step(with, random, pace);
    }
    Measured measured;
    measured.all_within = random() % 8 == 0;
    std::uint8_t known = 0;
    for (unsigned row = 0; row < kRows; ++row) {
      if (random() % 32 == 0) continue;
      known = static_cast<std::uint8_t>(known | 1U << row);
      const std::int64_t over = static_cast<std::int64_t>(random() % (kOctave / 2)) - kOctave / 4;
      measured.log_bounds[row] =
          random() % 16 == 0 ? -(std::int64_t{1} << 40) : with.log_error + over;
      bench.report_log_bound_i[row] =
          static_cast<std::uint64_t>(*measured.log_bounds[row]) & kLogMask;
    }
    step(with, random, pace);
    bench.report_known_i = known;
    bench.report_all_within_i = measured.all_within;
    bench.report_measured_i = 1;
    step(with, random, pace);
    bench.report_measured_i = 0;
    return measured;
  }

  void expect_end(const RoundsCase& with, test::Random& random, unsigned pace, bool dense,
                  bool capped, unsigned rounds) {
    auto& bench = **this;
    for (std::uint64_t i = 0; bench.done_o == 0; ++i) {
      if (i > with.pages.size() * 800 + 20000) {
        ADD_FAILURE() << "does not end";
        return;
      }
      EXPECT_EQ(bench.visit_valid_o, 0);
      if (testing::Test::HasFailure()) return;
      step(with, random, pace);
    }
    EXPECT_EQ(bench.outcome_failed_o, 0);
    EXPECT_EQ(bench.outcome_dense_o != 0, dense);
    EXPECT_EQ(bench.outcome_capped_o != 0, capped);
    EXPECT_EQ(bench.outcome_rounds_o, rounds);
  }

  std::deque<int> granted_{-1, -1};  // Words granted two and one cycles ago.
};

TEST(SampleRoundsTest, VisitsWhatTheModelWould) {
  test::Random random = test::case_random(0);
  SampleRounds rounds;
  Tally tally;
  for (unsigned i = 0; (i < 60 || (i < 400 && !tally.all_tried())) && !HasFailure(); ++i) {
    // Rounds in plenty need lists that are long beside their samples.
    RoundsCase with =
        random_rounds_case(random, i % 3 == 0 ? 1 + random() % 40 : 80 + random() % 120);
    if (i % 3 != 0) {
      with.rows = 1 + static_cast<unsigned>(random() % 2);
      with.scan_bursts = 0;
    }
    SCOPED_TRACE(testing::Message()
                 << "case " << i << " of " << with.pages.size() << " pages, scale " << with.scale);
    rounds.run(with, random, kPaces[i / 3 % 3], &tally);
  }
  EXPECT_TRUE(HasFailure() || tally.all_tried());
  std::printf("  rounds %u %u %u %u, dense %u, capped %u, state only %u\n", tally.rounds[1],
              tally.rounds[2], tally.rounds[3], tally.rounds[4], tally.dense, tally.capped,
              tally.state_only);
}

}  // namespace
}  // namespace nearkv::rtl_test
