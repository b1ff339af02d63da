#include "code_sums.hpp"

#include <algorithm>
#include <optional>

#include "rows.hpp"
#include "transform.hpp"

namespace nearkv::model {

namespace {

constexpr int kResidualDrop = 17;
constexpr int kMeanBits = 18;
constexpr int kTransposeBits = 15;
// With it the sums of the longest list fit 64 bits whatever its pages say.
constexpr int64_t kMostResidual = int64_t{1} << 48;

// A page's part of a row's sums.
class CodedPageSums {
 public:
  CodedPageSums(const AttendTask& task, const CodeScores& scores, const CodeWeights& weights,
                const CodeReads& reads, size_t row, size_t page)
      : task_(task),
        scores_(scores),
        weights_(weights),
        reads_(reads),
        row_(row),
        page_(page),
        values_(scores.list().values(page)),
        octave_(weights.octave(row, page)),
        rest_(rest_weight(visible() & ~alone())) {}

  // The largest integer part of what the page adds.
  [[nodiscard]] int64_t largest() const {
    int64_t largest = rest_ ? rest_->shift : kNoReference;
    for_each_token(
        alone(), [&](uint32_t token) { largest = std::max(largest, integer_part(logit(token))); });
    return largest;
  }

  void add_to(RowSoftmax* sums) const {
    const std::vector<int32_t> mean =
        scores_.list().is_coded(page_) ? this->mean() : std::vector<int32_t>();
    if (rest_) {
      sums->add({.mantissa = rest_->mantissa, .shift = sums->reference() - rest_->shift}, mean);
    }
    for_each_token(alone(), [&](uint32_t token) {
      const Weight weight = weight_of(logit(token), sums->reference());
      sums->add(weight, has_token(reads_.values.rows[page_], token) ? value(token) : mean);
    });
    add_residuals(sums);
  }

 private:
  [[nodiscard]] TokenMask visible() const { return scores_.list().pages()[page_].visible; }
  [[nodiscard]] TokenMask alone() const {
    return visible() & (scores_.known(page_) | reads_.values.rows[page_]);
  }
  [[nodiscard]] int value_exponent() const { return task_.input.exponents.value; }
  [[nodiscard]] int64_t base() const { return scores_.octave(row_, page_); }

  [[nodiscard]] int64_t logit(uint32_t token) const {
    if (has_token(scores_.known(page_), token)) return scores_.exact(row_, page_, token);
    return ((base() << kCodeLogitBits) + weights_.score(row_, page_, token)) * (1 << kExactToCode);
  }

  [[nodiscard]] std::vector<int32_t> value(uint32_t token) const {
    return value_row(scores_.list().pages()[page_].page, token, value_exponent());
  }

  // ṽ
  [[nodiscard]] std::vector<int32_t> mean() const {
    constexpr int64_t kMostValue = (int64_t{1} << 24) - 1;
    std::vector<int32_t> mean;
    const int power = values_.mean_power() - value_exponent() + 150;
    for (uint32_t channel = 0; channel < values_.channels(); ++channel) {
      const int64_t magnitude =
          scale_saturating(Int128{std::abs(values_.mean(channel))}, power, kMostValue);
      mean.push_back(static_cast<int32_t>(values_.mean(channel) < 0 ? -magnitude : magnitude));
    }
    return mean;
  }

  // The weight of tokens as one, its logit's integer part in place of a shift.
  [[nodiscard]] std::optional<Weight> rest_weight(TokenMask tokens) const {
    uint64_t sum = 0;
    for_each_token(tokens, [&](uint32_t token) {
      sum += static_cast<uint64_t>(weights_.weight(row_, page_, token, octave_));
    });
    if (sum == 0) return std::nullopt;
    const TopBits top = top_bits(sum, kMeanBits);
    return Weight{.mantissa = static_cast<int64_t>(top.top),
                  .shift = base() + octave_ + top.power + kMeanBits - 16};
  }

  // F of a token.
  [[nodiscard]] int64_t factor(uint32_t token, int planes) const {
    const std::optional<int> factor = values_.factor(token);
    if (!factor) return 0;
    const Octaves octave = octaves(*factor - values_.top());
    const int64_t ratio = kValueCodes.ratio[static_cast<size_t>(planes - 1)];
    return floor_shift(octave.mantissa * ratio, -octave.power - 11 + 4);
  }

  void add_residuals(RowSoftmax* sums) const {
    std::vector<int64_t> coded(values_.channels());
    bool is_any = false;
    for_each_token(visible() & ~reads_.values.rows[page_], [&](uint32_t token) {
      const int planes = reads_.values.planes_of(page_, token);
      if (planes == 0) return;
      const int64_t share =
          weights_.weight(row_, page_, token, octave_) * factor(token, planes) >> kResidualDrop;
      if (share == 0) return;
      is_any = true;
      const std::vector<int64_t> values = values_.values(token, planes);
      for (size_t c = 0; c < coded.size(); ++c) coded[c] += share * values[c];
    });
    if (!is_any) return;
    const Octaves top = octaves(values_.top());
    const int64_t power = octave_ + base() - sums->reference() + top.power + 4 - value_exponent() +
                          150 - kTransposeBits;
    std::vector<int64_t> parts;
    for (const int64_t part : transpose(coded, values_.sign_set())) {
      parts.push_back(scale_saturating(Int128{part} * top.mantissa,
                                       static_cast<int>(std::max<int64_t>(power, -256)),
                                       kMostResidual));
    }
    sums->add_values(parts);
  }

  const AttendTask& task_;
  const CodeScores& scores_;
  const CodeWeights& weights_;
  const CodeReads& reads_;
  size_t row_;
  size_t page_;
  StoredCodes values_;
  int64_t octave_;
  std::optional<Weight> rest_;
};

}  // namespace

RowSoftmax code_sums(const AttendTask& task, const CodeScores& scores, const CodeWeights& weights,
                     const CodeReads& reads, size_t row) {
  std::vector<CodedPageSums> pages;
  for (size_t page = 0; page < scores.list().size(); ++page) {
    if (scores.list().pages()[page].visible == 0) continue;
    pages.emplace_back(task, scores, weights, reads, row, page);
  }
  RowSoftmax sums(task.command.value_dim);
  for (const CodedPageSums& page : pages) sums.raise_reference(page.largest());
  for (const CodedPageSums& page : pages) page.add_to(&sums);
  return sums;
}

}  // namespace nearkv::model
