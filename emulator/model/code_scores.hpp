// What a command knows of the scores of a coded list's tokens (sections 12.3, 12.4, 13.1).
#ifndef NEARKV_MODEL_CODE_SCORES_HPP_
#define NEARKV_MODEL_CODE_SCORES_HPP_

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "code_query.hpp"
#include "coded_list.hpp"
#include "nkv_abi.h"

namespace nearkv::model {

/// L by token of a page.
using TokenLogits = std::array<int64_t, NKV_PAGE_TOKENS>;

class CodeScores {
 public:
  /// Scores every visible token of coded pages by one plane. `list` must outlive the scores.
  CodeScores(const CodedList& list, CodeQuery query);

  /// Scores tokens of a page by so many planes, those apart whose key rows are known.
  void refine(size_t page, TokenMask tokens, int planes);

  /// Takes the L of tokens' key rows (3.2), by token, for their scores in a row. Of a page that is
  /// not coded all visible tokens come at once.
  void set_exact(size_t row, size_t page, TokenMask tokens, const TokenLogits& logits);

  /// Whether codes could not say a score (12.3).
  [[nodiscard]] bool is_loud() const { return is_loud_; }

  /// I of a page.
  [[nodiscard]] int64_t octave(size_t row, size_t page) const {
    return octaves_[row * list_->size() + page];
  }

  /// R of a visible token, of one whose key row is known, too.
  [[nodiscard]] int64_t above(size_t row, size_t page, uint32_t token) const {
    return above_[slot(row, page, token)];
  }

  /// Its logit.
  [[nodiscard]] int64_t logit(size_t row, size_t page, uint32_t token) const {
    return (octave(row, page) << kCodeLogitBits) + above(row, page, token);
  }

  /// ν; nothing if the key row is known.
  [[nodiscard]] std::optional<int> variance(size_t row, size_t page, uint32_t token) const {
    return variances_[slot(row, page, token)];
  }

  /// L of a known key row.
  [[nodiscard]] int64_t exact(size_t row, size_t page, uint32_t token) const {
    return exact_[slot(row, page, token)];
  }

  /// Tokens of a page whose key rows are known.
  [[nodiscard]] TokenMask known(size_t page) const { return known_[page]; }

  [[nodiscard]] size_t rows() const { return query_.rows(); }
  [[nodiscard]] const CodedList& list() const { return *list_; }

 private:
  [[nodiscard]] size_t slot(size_t row, size_t page, uint32_t token) const {
    return (row * list_->size() + page) * NKV_PAGE_TOKENS + token;
  }

  const CodedList* list_;
  CodeQuery query_;
  std::vector<int64_t> octaves_;    // [row][page]
  std::vector<int64_t> fractions_;  // f, [row][page]
  std::vector<int64_t> above_;      // [row][page][token], as the next two
  std::vector<int64_t> exact_;
  std::vector<std::optional<int>> variances_;
  TokenSet known_;
  bool is_loud_ = false;
};

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_CODE_SCORES_HPP_
