// The codes of one tensor of a page, as its arrays hold them (section 11).
#ifndef NEARKV_MODEL_STORED_CODES_HPP_
#define NEARKV_MODEL_STORED_CODES_HPP_

#include <cstdint>
#include <optional>
#include <vector>

#include "code_tables.hpp"
#include "page.hpp"
#include "row_codes.hpp"

namespace nearkv::model {

enum class CodedTensor { kKeys, kValues };

/// A view of a page that has codes and a sign set that is one; valid as long as the page is.
class StoredCodes {
 public:
  StoredCodes(const Page& page, CodedTensor tensor);

  [[nodiscard]] const CodeForm& form() const { return is_keys() ? kKeyCodes : kValueCodes; }
  [[nodiscard]] uint32_t channels() const;
  [[nodiscard]] int sign_set() const { return page_.header().sign_set; }

  /// The mean of a channel is mean() · 2^mean_power(); of K, with its gain.
  [[nodiscard]] int mean(uint32_t channel) const;
  [[nodiscard]] int mean_power() const;

  /// λ' of a token, in sixteenths of octaves; nothing if it has no residual.
  [[nodiscard]] std::optional<int> factor(uint32_t token) const;

  /// λ' that factor 0 would stand for if it went on like the others: above it, no row counts as the
  /// mean.
  [[nodiscard]] int lowest_factor() const { return top() - kTopFactor * form().factor_step; }

  /// Whether a row has a factor.
  [[nodiscard]] bool has_residuals() const;

  /// λ' of factor 15.
  [[nodiscard]] int top() const;

  /// ẑ of the first `planes` planes, per transformed channel.
  [[nodiscard]] std::vector<int64_t> values(uint32_t token, int planes) const;

  /// The gain of a channel: of V, 0.
  [[nodiscard]] int gain(uint32_t channel) const;

  /// The row that the first `planes` planes, 1 to form().planes, tell of a token, in bf16 (11.8).
  [[nodiscard]] std::vector<uint16_t> row(uint32_t token, int planes) const;

  /// The arrays that `planes` planes of the tensor are in, with what their use needs.
  static std::vector<nkv_page_array> arrays(CodedTensor tensor, int planes);

 private:
  [[nodiscard]] bool is_keys() const { return tensor_ == CodedTensor::kKeys; }
  [[nodiscard]] bool bit(int plane, uint32_t token, uint32_t channel) const;

  const Page& page_;
  CodedTensor tensor_;
};

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_STORED_CODES_HPP_
