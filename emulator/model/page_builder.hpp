// Builds a page from source rows (section 2).
#ifndef NEARKV_MODEL_PAGE_BUILDER_HPP_
#define NEARKV_MODEL_PAGE_BUILDER_HPP_

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "domain.hpp"
#include "nkv_abi.h"

namespace nearkv::model {

/// PAGE_TOKENS source rows of both tensors, each tensor's rows one after the other.
struct SourceRows {
  std::span<const std::byte> keys;
  std::span<const std::byte> values;   ///< Empty with v_form NONE.
  std::span<const float> key_scales;   ///< Empty without KEY_SCALES.
  std::span<const int8_t> gains = {};  ///< Of K, per channel; empty without CODES.
  int sign_set = 0;                    ///< With CODES.
};

/// A page ready to be published: header and arrays as they go to memory.
struct BuiltPage {
  nkv_page_header header;
  std::vector<std::byte> bytes;
};

/// `identity` holds the shape and the fields that the command and its queue decide; the rest of the
/// header is filled in. Nothing if a tensor has more DELTA4 exceptions than fit.
std::optional<BuiltPage> build_page(const nkv_page_header& identity, const SourceRows& rows);

/// Writes a page to the place that its entry names, and its exponents to the entry. State and with
/// it the header go last: a page that is seen half written is no page.
void publish(const Window& window, const BuiltPage& page, nkv_page_entry* entry);

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_PAGE_BUILDER_HPP_
