// TOPK by midpoints (section 6): planes first, then few rows exactly.
#include <algorithm>
#include <array>
#include <limits>
#include <optional>

#include "plane_steps.hpp"
#include "topk.hpp"

namespace nearkv::model {

namespace {

constexpr uint32_t kDefaultSixteenths = 64;  // Of a standard deviation.

uint32_t sixteenths_of(const nkv_topk_command& command) {
  return command.z == 0 ? kDefaultSixteenths : command.z;
}

// One command on its way; reads are shared by all rows, decisions are per row.
class PlaneSearch {
 public:
  PlaneSearch(const TopkTask& task, PlaneSteps& steps)
      : task_(task),
        steps_(steps),
        sixteenths_(sixteenths_of(task.command)),
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
    const TokenSet seeds = steps_.best(2 * uint64_t{task_.command.top_k});
    verdict = read_rows(seeds);
    if (!verdict.ok()) return verdict;
    const std::vector<int64_t> taus = thresholds();

    TokenSet alive = pages_.visible();
    for (size_t page = 0; page < alive.size(); ++page) alive[page] &= ~seeds[page];
    alive = steps_.alive(alive, NKV_TOPK_PLANES, sixteenths_, taus);
    for (int plane = NKV_TOPK_PLANES + 1; plane <= NKV_KEY_PLANES; ++plane) {
      traffic_.refine += refine_bursts(pages_, alive);
      steps_.sharpen(alive, plane);
      alive = steps_.alive(alive, plane, sixteenths_, taus);
    }
    return read_rows(alive);
  }

  Verdict scan() {
    PageDemand demand{.head_dim = task_.command.head_dim,
                      .value_dim = std::nullopt,
                      .whole_header = false,
                      .streamed = {NKV_PAGE_ARRAY_K_DIGEST}};
    for (int plane = 0; plane < NKV_TOPK_PLANES; ++plane) {
      demand.streamed.push_back(static_cast<nkv_page_array>(NKV_PAGE_ARRAY_K_PLANE0 + plane));
    }
    const Verdict opened = ListedPages::open(task_.domain, task_.input.entries,
                                             task_.input.visibility, demand, &pages_);
    if (!opened.ok()) return opened;
    traffic_.stream += scan_bursts(pages_, NKV_TOPK_PLANES);
    steps_.scan(pages_, NKV_TOPK_PLANES);
    return {};
  }

  Verdict read_rows(const TokenSet& tokens) {
    constexpr std::array kArrays{NKV_PAGE_ARRAY_K_EXPONENTS};
    const Verdict verdict = pages_.rely_on(task_.domain, task_.input.entries, tokens, kArrays);
    if (!verdict.ok()) return verdict;
    traffic_.exact += key_row_bursts(pages_, tokens);
    const std::vector<int64_t> scores = steps_.scores(tokens);
    auto score = scores.begin();
    for (size_t page = 0; page < pages_.size(); ++page) {
      for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
        if (!has_token(tokens[page], token)) continue;
        for (auto& row : scored_) {
          row.push_back({.score = *score++, .token = pages_[page].first_token() + token});
        }
      }
    }
    return {};
  }

  // Step 2: τ of every row from the seeds' scores.
  [[nodiscard]] std::vector<int64_t> thresholds() const {
    const size_t k = task_.command.top_k;
    std::vector<int64_t> taus;
    for (const auto& row : scored_) {
      const auto best = best_tokens(row, k);
      taus.push_back(best.size() == k ? best.back().score : std::numeric_limits<int64_t>::min());
    }
    return taus;
  }

  const TopkTask& task_;
  PlaneSteps& steps_;
  uint32_t sixteenths_;
  ListedPages pages_;
  std::vector<std::vector<ScoredToken<int64_t>>> scored_;  // Per row, tokens read so far.
  Traffic traffic_;
};

}  // namespace

TopkAnswer topk_by_planes(const TopkTask& task) {
  ModelPlaneSteps steps(task.input.query, task.input.exponents.key);
  return topk_by_planes(task, steps);
}

TopkAnswer topk_by_planes(const TopkTask& task, PlaneSteps& steps) {
  return PlaneSearch(task, steps).run();
}

}  // namespace nearkv::model
