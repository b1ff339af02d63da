// nkv_code_scores with commands and pages before it, which holds what it says against the model.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <deque>
#include <memory>
#include <span>
#include <vector>

#include "Vnkv_code_scores.h"
#include "code_query.hpp"
#include "nkv_abi.h"
#include "scores/code_commands.hpp"
#include "simulation.hpp"

namespace nearkv::rtl_test {

inline constexpr unsigned kRows = 8;
inline constexpr unsigned kSliceTokens = 4;
inline constexpr unsigned kSlices = NKV_PAGE_TOKENS / kSliceTokens;

/// One command: a query before pages, scored by so many planes.
struct Task {
  model::Query query;
  std::vector<int8_t> gains;
  int top = 0;
  unsigned planes = 1;
  std::uint8_t z = 0;
  std::vector<std::int64_t> thresholds = {};  ///< Per row; none: no token is alive.
};

struct PlaneBurst {
  std::span<const std::byte> bytes;
  bool is_first;  ///< Of a run,
  unsigned slice;
  unsigned plane;
};

/// What is said of a page's tokens, in the order in which slices come.
struct Scores {
  std::vector<unsigned> slices = {};
  std::array<std::vector<std::int64_t>, kRows> logits = {};
  std::vector<bool> alive = std::vector<bool>(NKV_PAGE_TOKENS);
  bool is_loud = false;
};

/// A page of a command: the tokens that count, and the planes' bursts that are read.
struct Visit {
  std::shared_ptr<const CodedPage> page;
  std::uint64_t tokens = 0;
  std::vector<PlaneBurst> bursts = {};
  std::vector<unsigned> slices = {};

  [[nodiscard]] int set() const { return page->keys().sign_set(); }
};

inline Scores expected_scores(const Task& task, const model::CodeQuery& query, const Visit& visit) {
  Scores scores{.slices = visit.slices};
  const model::StoredCodes keys = visit.page->keys();
  const int planes = static_cast<int>(task.planes);
  for (size_t row = 0; row < query.rows(); ++row) {
    const model::CodeLogit mean = query.mean_logit(row, keys);
    scores.is_loud |= mean.is_loud && visit.tokens != 0;
    for (unsigned token = 0; token < NKV_PAGE_TOKENS; ++token) {
      const bool counts = (visit.tokens >> token & 1) != 0;
      const model::CodeLogit residual =
          query.residual_logit(row, keys, token, keys.values(token, planes), planes);
      scores.logits[row].push_back(mean.value + residual.value);
      scores.is_loud |= residual.is_loud && counts;
      if (task.thresholds.empty() || !counts) continue;
      const int variance = query.variance(row, keys, token, planes);
      const std::int64_t most = scores.logits[row].back() + model::search_radius(variance, task.z);
      if (most >= task.thresholds[row]) scores.alive[token] = true;
    }
  }
  return scores;
}

class Scorer : public Simulation<Vnkv_code_scores> {
 public:
  Scorer() { reset(); }

  /// All pages of a command; what the unit says of them is what the model does.
  void check(const Task& task, const std::vector<Visit>& visits, test::Random& random,
             unsigned pace) {
    const model::CodeQuery query(task.query, task.gains, task.top);
    begin(task, query);
    if (testing::Test::HasFatalFailure()) return;
    bool is_loud = false;
    for (unsigned waited = 0; over_ < visits.size(); ++waited) {
      ASSERT_LT(waited, kPatience * visits.size()) << "a page's scores did not come";
      offer_page(visits, random, pace);
      offer_planes(visits, random, pace);
      settle();
      if ((*this)->page_valid_i && (*this)->page_ready_o) {
        flights_.push_back({bank_, 0, expected_scores(task, query, visits[sent_])});
        is_loud |= flights_.back().scores.is_loud;
        step_ = Step::kSummary;
      } else if ((*this)->set_valid_i && (*this)->set_ready_o) {
        bank_ = 1 - bank_;
        sets_[bank_] = visits[sent_].set();
        step_ = Step::kSetWaits;
        set_began_ = cycles();
      } else if ((*this)->summary_valid_i && (*this)->summary_ready_o) {
        ++summary_;
        if ((*this)->summary_last_i) {
          summary_ = 0;
          ++sent_;
          step_ = Step::kSet;
        }
      }
      if ((*this)->plane_valid_i && (*this)->plane_ready_o && (*this)->plane_last_i) {
        planes_ = 0;
        ++planned_;
      } else if ((*this)->plane_valid_i && (*this)->plane_ready_o) {
        ++planes_;
      }
      tick();
      if ((*this)->set_done_o) {
        step_ = Step::kPage;
        set_cycles_ = cycles() - set_began_;
      }
      see(query.rows());
      if (testing::Test::HasFatalFailure()) return;
    }
    tick();
    EXPECT_EQ((*this)->loud_o, is_loud);
  }

  /// Cycles that the last sign set took.
  [[nodiscard]] std::uint64_t set_cycles() const { return set_cycles_; }

  /// Cycles from one page of the last command to the next, at the most, but for the first.
  [[nodiscard]] std::uint64_t cycles_a_page() const {
    std::uint64_t most = 0;
    for (size_t i = 2; i < ends_.size(); ++i) most = std::max(most, ends_[i] - ends_[i - 1]);
    return most;
  }

 private:
  static constexpr unsigned kLanes = 32;
  static constexpr unsigned kPatience = 4000;

  enum class Step { kSet, kSetWaits, kPage, kSummary };
  struct Flight {
    unsigned bank;
    size_t seen;
    Scores scores;
  };

  void begin(const Task& task, const model::CodeQuery& query) {
    const auto dim = static_cast<unsigned>(task.gains.size());
    (*this)->clear_i = 1;
    (*this)->set_valid_i = (*this)->page_valid_i = 0;
    (*this)->summary_valid_i = (*this)->plane_valid_i = 0;
    (*this)->dim_i = static_cast<std::uint8_t>(dim);
    (*this)->rows_i = static_cast<std::uint8_t>(query.rows());
    (*this)->z_i = task.z;
    (*this)->last_plane_i = static_cast<std::uint8_t>(task.planes - 1);
    (*this)->top_i = static_cast<unsigned>(task.top) & 0xfffff;
    (*this)->ranked_i = !task.thresholds.empty();
    for (unsigned row = 0; row < query.rows(); ++row) {
      (*this)->query_exponent_i[row] = static_cast<std::uint8_t>(task.query.exponent(row));
      (*this)->threshold_i[row] =
          task.thresholds.empty() ? 0 : task.thresholds[row] & ((std::int64_t{1} << 39) - 1);
    }
    tick();
    (*this)->clear_i = 0;
    for (unsigned granule = 0; granule < dim / 8; ++granule) {
      (*this)->gains_valid_i = 1;
      (*this)->gains_index_i = static_cast<std::uint8_t>(granule);
      std::memcpy(&(*this)->gains_i, task.gains.data() + 8 * size_t{granule}, 8);
      tick();
    }
    (*this)->gains_valid_i = 0;
    for (unsigned row = 0; row < query.rows(); ++row) {
      for (unsigned first = 0; first < dim; first += kLanes) {
        (*this)->query_valid_i = 1;
        (*this)->query_row_i = static_cast<std::uint8_t>(row);
        (*this)->query_word_i = static_cast<std::uint8_t>(first / kLanes);
        for (unsigned i = 0; i < kLanes; ++i) {
          const bool is_there = first + i < dim;
          (*this)->query_i[i] = is_there ? task.query.row(row)[first + i] & 0xffffff : 0;
        }
        tick();
      }
    }
    (*this)->query_valid_i = 0;
    (*this)->start_i = 1;
    tick();
    (*this)->start_i = 0;
    ASSERT_TRUE(tick_until([this] { return (*this)->ready_o != 0; }, kPatience));
    step_ = Step::kSet;
    sets_ = {-1, -1};
    sent_ = summary_ = planned_ = planes_ = over_ = 0;
    flights_.clear();
    ends_.clear();
  }

  void offer_page(const std::vector<Visit>& visits, test::Random& random, unsigned pace) {
    (*this)->set_valid_i = (*this)->page_valid_i = (*this)->summary_valid_i = 0;
    if (sent_ == visits.size()) return;
    const Visit& visit = visits[sent_];
    const bool may_load = std::ranges::none_of(
        flights_, [this](const Flight& flight) { return flight.bank != bank_; });
    if (step_ == Step::kSet && sets_[bank_] == visit.set()) step_ = Step::kPage;
    if (step_ == Step::kSet && may_load) {
      (*this)->set_valid_i = 1;
      (*this)->set_i = static_cast<std::uint8_t>(visit.set());
      (*this)->set_bank_i = static_cast<std::uint8_t>(1 - bank_);
    }
    if (!is_willing(random, pace)) return;
    if (step_ == Step::kPage) {
      const model::StoredCodes keys = visit.page->keys();
      (*this)->page_valid_i = 1;
      (*this)->page_set_bank_i = static_cast<std::uint8_t>(bank_);
      (*this)->page_top_i = static_cast<std::uint16_t>(keys.top());
      (*this)->page_mean_power_i = static_cast<std::uint16_t>(keys.mean_power());
      (*this)->page_tokens_i = visit.tokens;
      (*this)->page_slices_i = static_cast<std::uint8_t>(visit.slices.size());
    }
    if (step_ == Step::kSummary) {
      const auto summary = visit.page->array(NKV_PAGE_ARRAY_CODE_SUMMARY);
      const size_t first = summary_ * NKV_BURST_BYTES;
      (*this)->summary_valid_i = 1;
      (*this)->summary_last_i = first + NKV_BURST_BYTES >= summary.size();
      (*this)->summary_i = {};
      std::memcpy((*this)->summary_i.m_storage, summary.data() + first,
                  std::min<size_t>(NKV_BURST_BYTES, summary.size() - first));
    }
  }

  void offer_planes(const std::vector<Visit>& visits, test::Random& random, unsigned pace) {
    (*this)->plane_valid_i = 0;
    if (planned_ == visits.size() || !is_willing(random, pace)) return;
    const PlaneBurst& burst = visits[planned_].bursts[planes_];
    (*this)->plane_valid_i = 1;
    (*this)->plane_first_i = burst.is_first;
    (*this)->plane_last_i = planes_ + 1 == visits[planned_].bursts.size();
    (*this)->plane_slice_i = static_cast<std::uint8_t>(burst.slice);
    (*this)->plane_i = static_cast<std::uint8_t>(burst.plane);
    std::memcpy((*this)->plane_burst_i.m_storage, burst.bytes.data(), NKV_BURST_BYTES);
  }

  void see(size_t rows) {
    if (!(*this)->valid_o) return;
    ASSERT_FALSE(flights_.empty());
    Flight& flight = flights_.front();
    const Scores& scores = flight.scores;
    const unsigned slice = scores.slices[flight.seen];
    ASSERT_EQ((*this)->slice_o, slice);
    ASSERT_EQ((*this)->last_o, flight.seen + 1 == scores.slices.size());
    for (unsigned t = 0; t < kSliceTokens; ++t) {
      const unsigned token = slice * kSliceTokens + t;
      ASSERT_EQ((*this)->alive_o >> t & 1, scores.alive[token]) << "token " << token;
      for (size_t row = 0; row < rows; ++row) {
        const std::int64_t octave = signed_of((*this)->octave_o[row], 24);
        const auto above = static_cast<std::int16_t>((*this)->above_o[row][t]);
        ASSERT_EQ(128 * octave + above, scores.logits[row][token])
            << "row " << row << ", token " << token;
      }
    }
    if (++flight.seen < scores.slices.size()) return;
    flights_.pop_front();
    ends_.push_back(cycles());
    ++over_;
  }

  Step step_ = Step::kSet;
  std::array<int, 2> sets_ = {-1, -1};  // In the banks.
  unsigned bank_ = 0;
  size_t sent_ = 0;     // Pages whose summary was,
  size_t summary_ = 0;  // bursts of the next one's that were;
  size_t planned_ = 0;  // the same of planes.
  size_t planes_ = 0;
  size_t over_ = 0;  // Pages whose scores have come.
  std::deque<Flight> flights_;
  std::vector<std::uint64_t> ends_;  // Of pages.
  std::uint64_t set_began_ = 0;
  std::uint64_t set_cycles_ = 0;
};

}  // namespace nearkv::rtl_test
