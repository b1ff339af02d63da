// A command of attention over a coded list: what it has read, and what that tells.
#ifndef NEARKV_MODEL_CODED_ATTENTION_HPP_
#define NEARKV_MODEL_CODED_ATTENTION_HPP_

#include <cstdint>
#include <vector>

#include "attend.hpp"
#include "code_reads.hpp"
#include "code_scores.hpp"
#include "code_weights.hpp"
#include "coded_list.hpp"
#include "traffic.hpp"

namespace nearkv::model {

class CodedAttention {
 public:
  /// Scans codes. `task` must outlive it.
  CodedAttention(const AttendTask& task, CodedList list);
  CodedAttention(const CodedAttention&) = delete;
  CodedAttention& operator=(const CodedAttention&) = delete;

  /// What the scan reads: codes, and all rows of the pages that are not coded.
  [[nodiscard]] uint64_t scan_bursts() const;

  /// Reads those rows.
  Verdict read_plain_pages() { return read(with_plain_pages()); }

  /// Whether codes are of no use to the command (12.3).
  [[nodiscard]] bool is_loud() const { return scores_.is_loud(); }

  /// Reads what `next` has more than has been read, and counts it.
  Verdict read(const CodeReads& next);

  /// M, z and acc of every row.
  [[nodiscard]] std::vector<RowSoftmax> sums() const;

  /// The answer that those sums give, without bounds.
  [[nodiscard]] AttendAnswer answer(const std::vector<RowSoftmax>& sums) const;

  /// What DENSE answers, with what has been read counted too.
  [[nodiscard]] AttendAnswer dense_answer() const;

  [[nodiscard]] const CodedList& list() const { return list_; }
  [[nodiscard]] const CodeReads& reads() const { return reads_; }
  [[nodiscard]] const CodeScores& scores() const { return scores_; }
  [[nodiscard]] const CodeWeights& weights() const { return weights_; }
  [[nodiscard]] const Traffic& traffic() const { return traffic_; }

  /// Whether a key row is a value row, too.
  [[nodiscard]] bool shares_rows() const;

 private:
  [[nodiscard]] CodeReads with_plain_pages() const;
  void take_key_rows(size_t page, TokenMask tokens);

  const AttendTask& task_;
  CodedList list_;
  CodeScores scores_;
  CodeWeights weights_;
  CodeReads reads_;
  Traffic traffic_;
};

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_CODED_ATTENTION_HPP_
