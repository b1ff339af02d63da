// ATTEND's three modes behind one shape.
#ifndef NEARKV_MODEL_ATTEND_HPP_
#define NEARKV_MODEL_ATTEND_HPP_

#include <cstdint>
#include <functional>
#include <vector>

#include "domain.hpp"
#include "logit.hpp"
#include "nkv_abi.h"
#include "outcome.hpp"
#include "page_list.hpp"
#include "scan_input.hpp"
#include "softmax.hpp"
#include "traffic.hpp"
#include "verdict.hpp"

namespace nearkv::model {

/// One ATTEND command, checked.
struct AttendTask {
  const Domain& domain;
  const nkv_attend_command& command;
  const ScanInput& input;
  LogitScale scale;

  [[nodiscard]] bool base2() const { return (command.flags & NKV_ATTEND_FLAG_LSE_BASE2) != 0; }
};

/// Results of one query row.
struct AttendRow {
  std::vector<float> output;  ///< O
  float log_sum_exp;
  float bound = 0.0f;  ///< Relative to |O|.
};

struct AttendAnswer {
  Verdict verdict{};
  std::vector<AttendRow> rows{};
  Traffic traffic{};
  uint8_t flags = 0;
  uint8_t rounds = 0;
};

/// Section 4.
AttendAnswer attend_dense(const AttendTask& task);

/// DENSE's answer to another mode, flagged as such, after `spent` was read in vain.
AttendAnswer fall_back_to_dense(const AttendTask& task, const Traffic& spent);

/// What the command's mode asks for.
AttendAnswer attend_by_mode(const AttendTask& task);

/// The command, answered `way`'s way: it gives what attend_by_mode() gives.
Outcome attend(const Domain& domain, const nkv_attend_command& command,
               const std::function<AttendAnswer(const AttendTask&)>& way);

/// DENSE's pages: their exponents and rows verified.
Verdict open_dense_pages(const AttendTask& task, ListedPages* pages);

/// A row's result from its running softmax (4.1).
AttendRow finish_row(const AttendTask& task, const RowSoftmax& softmax);

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_ATTEND_HPP_
