// TOPK by midpoints (section 6): planes, or digests alone, first, then few rows exactly.
#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "midpoints.hpp"
#include "number.hpp"
#include "rows.hpp"
#include "topk.hpp"

namespace nearkv::model {

namespace {

constexpr uint32_t kDefaultSixteenths = 64;  // Of a standard deviation.

std::optional<uint32_t> sixteenths_of(const nkv_topk_command& command) {
  if (command.mode == NKV_SELECT_CERTIFIED) return std::nullopt;
  return command.z == 0 ? kDefaultSixteenths : command.z;
}

bool is_filter(const nkv_topk_command& command) {
  return command.mode == NKV_SELECT_SIGN || command.mode == NKV_SELECT_DIGEST;
}

int scanned_planes_of(const nkv_topk_command& command) {
  if (command.mode == NKV_SELECT_DIGEST) return 0;
  if (command.planes != 0) return command.planes;
  return command.mode == NKV_SELECT_SIGN ? 1 : int{NKV_TOPK_PLANES};
}

uint64_t seeds_of(const nkv_topk_command& command) {
  if (!is_filter(command) || command.candidates == 0) return 2 * uint64_t{command.top_k};
  return std::max(command.candidates, command.top_k);
}

// One command on its way; reads are shared by all rows, decisions are per row.
class PlaneSearch {
 public:
  explicit PlaneSearch(const TopkTask& task)
      : task_(task),
        sixteenths_(sixteenths_of(task.command)),
        scanned_planes_(scanned_planes_of(task.command)),
        scored_(task.input.query.rows()) {}

  TopkAnswer run() {
    TopkAnswer answer;
    answer.verdict = search();
    if (!answer.verdict.ok()) return answer;
    if (pages_.hides_nonfinite()) answer.flags |= NKV_COMPLETION_FLAG_NONFINITE;
    answer.traffic = traffic_;
    for (size_t row = 0; row < scored_.size(); ++row) {
      answer.rows.push_back(found_by_score(task_, row, std::move(scored_[row])));
    }
    return answer;
  }

 private:
  Verdict search() {
    Verdict verdict = scan();
    if (!verdict.ok()) return verdict;
    const TokenSet seeds = midpoints_->best(seeds_of(task_.command));
    verdict = read_rows(seeds);
    if (!verdict.ok() || is_filter(task_.command)) return verdict;
    freeze_thresholds();

    TokenSet alive = pages_.visible();
    for (size_t page = 0; page < alive.size(); ++page) alive[page] &= ~seeds[page];
    keep_alive(scanned_planes_, &alive);
    for (int plane = scanned_planes_ + 1; plane <= NKV_KEY_PLANES; ++plane) {
      traffic_.refine += refine_bursts(pages_, alive);
      sharpen(plane, alive);
      keep_alive(plane, &alive);
    }
    return read_rows(alive);
  }

  Verdict scan() {
    PageDemand demand{.head_dim = task_.command.head_dim,
                      .value_dim = std::nullopt,
                      .whole_header = false,
                      .streamed = {NKV_PAGE_ARRAY_K_DIGEST}};
    for (int plane = 0; plane < scanned_planes_; ++plane) {
      demand.streamed.push_back(static_cast<nkv_page_array>(NKV_PAGE_ARRAY_K_PLANE0 + plane));
    }
    const Verdict opened = ListedPages::open(task_.domain, task_.input.entries,
                                             task_.input.visibility, demand, &pages_);
    if (!opened.ok()) return opened;
    traffic_.stream += scan_bursts(pages_, scanned_planes_);
    midpoints_.emplace(pages_, task_.input.query, task_.input.exponents.key, scanned_planes_);
    return {};
  }

  Verdict read_rows(const TokenSet& tokens) {
    constexpr std::array kArrays{NKV_PAGE_ARRAY_K_EXPONENTS};
    const Verdict verdict = pages_.rely_on(task_.domain, task_.input.entries, tokens, kArrays);
    if (!verdict.ok()) return verdict;
    traffic_.exact += key_row_bursts(pages_, tokens);
    for (size_t page = 0; page < pages_.size(); ++page) {
      for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
        if (!has_token(tokens[page], token)) continue;
        const auto key = key_row(pages_[page].page, token, task_.input.exponents.key);
        for (size_t row = 0; row < scored_.size(); ++row) {
          scored_[row].push_back({.score = exact_score(task_.input.query.row(row), key),
                                  .token = pages_[page].first_token() + token});
        }
      }
    }
    return {};
  }

  // Step 2: τ16 of every row from the seeds' scores. It is clamped as midpoints are: above them it
  // would drop tokens whose radius was clamped although their bound reaches it.
  void freeze_thresholds() {
    const size_t k = task_.command.top_k;
    for (size_t row = 0; row < scored_.size(); ++row) {
      const auto best = best_tokens(scored_[row], k);
      const int64_t tau =
          best.size() == k ? best.back().score : std::numeric_limits<int64_t>::min();
      const int64_t above = floor_shift(tau, NKV_PLANE_WEIGHT_SHIFT) - midpoints_->reference(row);
      thresholds_.push_back(std::clamp<int64_t>(floor_shift(above, midpoints_->shift(row)),
                                                -kMidpointLimit, kMidpointLimit));
    }
  }

  // Step 3: drops tokens whose upper bound stays below the threshold of every row.
  void keep_alive(int planes, TokenSet* alive) const {
    for (size_t page = 0; page < pages_.size(); ++page) {
      if ((*alive)[page] == 0) continue;
      TokenMask kept = 0;
      for (size_t row = 0; row < scored_.size(); ++row) {
        const int64_t radius = midpoints_->stored_radius(row, page, planes, sixteenths_);
        for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
          const int32_t midpoint = midpoints_->at(row, page, token);
          if (midpoint == kMidpointLimit || midpoint + radius >= thresholds_[row]) {
            kept |= token_bit(token);
          }
        }
      }
      (*alive)[page] &= kept;
    }
  }

  void sharpen(int plane, const TokenSet& alive) {
    for (size_t page = 0; page < pages_.size(); ++page) {
      if (alive[page] == 0) continue;
      const auto weights = midpoints_->weights_of(page);
      for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
        if (has_token(alive[page], token)) midpoints_->sharpen(page, token, plane, weights);
      }
    }
  }

  const TopkTask& task_;
  std::optional<uint32_t> sixteenths_;
  int scanned_planes_;
  ListedPages pages_;
  std::optional<Midpoints> midpoints_;
  std::vector<std::vector<ScoredToken<int64_t>>> scored_;  // Per row, tokens read so far.
  std::vector<int64_t> thresholds_;                        // τ16 per row.
  Traffic traffic_;
};

}  // namespace

TopkAnswer topk_by_planes(const TopkTask& task) { return PlaneSearch(task).run(); }

}  // namespace nearkv::model
