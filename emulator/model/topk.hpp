// TOPK's ways to find tokens behind one shape (section 6).
#ifndef NEARKV_MODEL_TOPK_HPP_
#define NEARKV_MODEL_TOPK_HPP_

#include <cstdint>
#include <functional>
#include <vector>

#include "coded_list.hpp"
#include "domain.hpp"
#include "nkv_abi.h"
#include "outcome.hpp"
#include "page_list.hpp"
#include "ranking.hpp"
#include "scan_input.hpp"
#include "traffic.hpp"
#include "verdict.hpp"

namespace nearkv::model {

/// One TOPK command, checked.
struct TopkTask {
  const Domain& domain;
  const nkv_topk_command& command;
  const ScanInput& input;
};

/// A token as the command returns it.
struct FoundToken {
  uint32_t token;
  float score;  ///< scale · q k, or scale times the indexer's score.
};

struct TopkAnswer {
  Verdict verdict{};
  std::vector<std::vector<FoundToken>> rows{};
  Traffic traffic{};
  uint8_t flags = 0;
};

/// STATISTICAL, of a list that has codes (section 14).
TopkAnswer topk_by_codes(const TopkTask& task, CodedList list);

/// FULL: every visible key row.
TopkAnswer topk_full(const TopkTask& task);

/// INDEXER: one row for the group.
TopkAnswer topk_indexer(const TopkTask& task);

/// What the command's mode asks for.
TopkAnswer topk_by_mode(const TopkTask& task);

/// The command, with tokens found `way`'s way: it gives what topk_by_mode() gives.
Outcome topk(const Domain& domain, const nkv_topk_command& command,
             const std::function<TopkAnswer(const TopkTask&)>& way);

/// FULL's pages: their exponents, rows and scales verified.
Verdict open_full_pages(const TopkTask& task, bool raw_keys, ListedPages* pages);

/// A row's best tokens by exact score S, with the scores that are returned.
std::vector<FoundToken> found_by_score(const TopkTask& task, size_t row,
                                       std::vector<ScoredToken<int64_t>> tokens);

/// S · 2^(Eq + Ek − 301), in binary64.
double score_value(const TopkTask& task, size_t row, int64_t score);

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_TOPK_HPP_
