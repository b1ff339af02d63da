// What BOUNDED believes before it samples, in binary64 (the state of section 8).
#ifndef NEARKV_MODEL_ESTIMATE_HPP_
#define NEARKV_MODEL_ESTIMATE_HPP_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "tail_state.hpp"

namespace nearkv::model {

/// A snapshot of a TailState: reading more tokens into the state does not change it.
class Estimate {
 public:
  /// `state` has been scanned and must outlive the estimate.
  explicit Estimate(const TailState& state);

  [[nodiscard]] const TailState& state() const { return *state_; }
  [[nodiscard]] size_t rows() const { return rows_.size(); }

  /// Tokens of a page that were outside the exact set.
  [[nodiscard]] TokenMask rest(size_t page) const { return pages_[page].rest; }
  [[nodiscard]] uint64_t rest_tokens() const;

  /// 2^(L / 2^16 − M) of any logit of a row; p_i for the state's own.
  [[nodiscard]] double weight_of_logit(size_t row, int64_t logit) const;
  [[nodiscard]] double weight(size_t row, size_t page, uint32_t token) const {
    return weights_[slot(row, page, token)];
  }

  [[nodiscard]] double mean_weight(size_t row, size_t page) const {  ///< p̄
    return pages_[page].rows[row].mean_weight;
  }
  [[nodiscard]] std::span<const double> mean_value(size_t page) const {  ///< v^
    return pages_[page].mean_value;
  }

  [[nodiscard]] int64_t reference(size_t row) const { return rows_[row].reference; }  ///< M
  [[nodiscard]] double sum(size_t row) const { return rows_[row].sum; }               ///< Z
  [[nodiscard]] double norm(size_t row) const { return rows_[row].norm; }             ///< |O^|
  [[nodiscard]] std::span<const double> output(size_t row) const {                    ///< O^
    return rows_[row].output;
  }

  /// a²: how far a token may move a row's output, squared.
  [[nodiscard]] double contribution2(size_t row, size_t page, uint32_t token) const;

 private:
  struct Row {
    int64_t reference = 0;
    double sum = 0;
    double norm = 0;
    std::vector<double> output;
  };
  struct PageRow {
    double sum_weight = 0;
    double mean_weight = 0;
    double distance2 = 0;      // |v^ − O^|²
    double weight_factor = 0;  // exp(s²) − 1
  };
  struct Page {
    TokenMask rest = 0;
    std::vector<double> mean_value;
    double residual2 = 0;  // τ²
    std::vector<PageRow> rows;
  };

  [[nodiscard]] size_t slot(size_t row, size_t page, uint32_t token) const {
    return (row * pages_.size() + page) * NKV_PAGE_TOKENS + token;
  }
  void take_weights(size_t row);
  void take_page(size_t page);
  void take_outputs();
  void judge_page(size_t row, size_t page);

  const TailState* state_;
  std::vector<Row> rows_;
  std::vector<Page> pages_;
  std::vector<double> weights_;  // p, [row][page][token]
};

/// Values as numbers: v̄ · 2^(Ev − 150).
std::vector<double> value_numbers(std::span<const int32_t> integers, int value_exponent);

/// Euclidean norm.
double norm_of(std::span<const double> vector);

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_ESTIMATE_HPP_
