// What TAIL and BOUNDED know of a list: an exact set of tokens, and plane precision for the others
// (sections 7.1 to 7.4).
#ifndef NEARKV_MODEL_TAIL_STATE_HPP_
#define NEARKV_MODEL_TAIL_STATE_HPP_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "attend.hpp"
#include "midpoints.hpp"
#include "page_list.hpp"
#include "traffic.hpp"

namespace nearkv::model {

class TailState {
 public:
  /// Streamed planes of both modes.
  static constexpr int kPlanes = 2;

  /// `task` must outlive the state.
  explicit TailState(const AttendTask& task) : task_(&task) {}
  TailState(const TailState&) = delete;
  TailState& operator=(const TailState&) = delete;

  /// Streams the list and chooses the exact set of 7.1, which is not read yet: partly visible
  /// pages, saturated midpoints, and the best `top_k` of every row.
  Verdict scan(uint32_t top_k);

  /// Reads the exact set and the sums of all other tokens' pages, and in the same visit the rows of
  /// `sample`, none of them in that set.
  Verdict read_exact_set(const TokenSet& sample);

  /// Bursts that read_exact_set() would count.
  [[nodiscard]] uint64_t exact_set_bursts(const TokenSet& sample) const;

  /// Reads key and value rows of `tokens`, all outside the exact set, and their pages' sums.
  Verdict read_sample(const TokenSet& tokens);

  /// Bursts that read_sample() would count.
  [[nodiscard]] uint64_t sample_bursts(const TokenSet& tokens) const;

  /// Makes tokens that were read members of the exact set.
  void take_tokens(const TokenSet& tokens);

  [[nodiscard]] const AttendTask& task() const { return *task_; }
  [[nodiscard]] const ListedPages& pages() const { return pages_; }
  [[nodiscard]] const Midpoints& midpoints() const { return *midpoints_; }
  [[nodiscard]] const Traffic& traffic() const { return traffic_; }
  [[nodiscard]] bool hides_nonfinite() const { return hides_nonfinite_; }
  [[nodiscard]] size_t rows() const { return task_->input.query.rows(); }

  [[nodiscard]] TokenMask exact(size_t page) const { return exact_[page]; }

  /// Visible tokens of a page outside the exact set.
  [[nodiscard]] TokenMask rest(size_t page) const { return pages_[page].visible & ~exact_[page]; }

  /// V_SUM of a page, at the list's exponent.
  [[nodiscard]] std::vector<int64_t> value_sum(size_t page) const;

  /// V_c of a page: the sum of the values of its rest, at the list's exponent.
  [[nodiscard]] std::span<const int64_t> rest_value_sum(size_t page) const {
    return rest_value_sums_[page];
  }

  /// L of a visible token: from S in the exact set, else from its midpoint (7.2).
  [[nodiscard]] int64_t logit(size_t row, size_t page, uint32_t token) const {
    return logits_[slot(row, page, token)];
  }

  /// M_t: the largest integer part of a row's logits from midpoints that are not saturated (7.2).
  [[nodiscard]] int64_t midpoint_reference(size_t row) const { return midpoint_references_[row]; }

 private:
  [[nodiscard]] size_t slot(size_t row, size_t page, uint32_t token) const {
    return (row * pages_.size() + page) * NKV_PAGE_TOKENS + token;
  }

  [[nodiscard]] TokenSet first_exact_set(uint32_t top_k) const;
  void take_midpoint_logits();
  void take_value_sums();
  [[nodiscard]] TokenSet rests() const;
  [[nodiscard]] TokenSet exact_with(const TokenSet& sample) const;
  [[nodiscard]] uint64_t row_bursts_of(const TokenSet& tokens) const;
  void count_rows(const TokenSet& tokens);
  Verdict rely_on_pages(const TokenSet& tokens);
  void take_token(size_t page, uint32_t token);
  [[nodiscard]] int64_t exact_logit(size_t row, std::span<const int32_t> key) const;

  const AttendTask* task_;
  ListedPages pages_;
  std::optional<Midpoints> midpoints_;
  TokenSet exact_;
  std::vector<int64_t> logits_;  // [row][page][token]
  std::vector<int64_t> midpoint_references_;
  std::vector<std::vector<int64_t>> rest_value_sums_;
  Traffic traffic_;
  bool hides_nonfinite_ = false;
};

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_TAIL_STATE_HPP_
