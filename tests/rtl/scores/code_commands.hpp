// Queries, gains and pages for what scores by codes.
#pragma once

#include <gtest/gtest.h>

#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <span>
#include <vector>

#include "crc32c.hpp"
#include "domain.hpp"
#include "nkv_abi.h"
#include "page.hpp"
#include "query.hpp"
#include "stored_codes.hpp"
#include "support/seed.hpp"

namespace nearkv::rtl_test {

/// A port of so many bits as the number that it stands for.
inline std::int64_t signed_of(std::uint64_t port, unsigned bits) {
  return static_cast<std::int64_t>(port << (64 - bits)) >> (64 - bits);
}

/// The elements, finite ones, as rows of a query.
inline model::Query query_of(const std::vector<float>& elements, unsigned rows) {
  model::Query query;
  EXPECT_TRUE(model::Query::decode(std::as_bytes(std::span(elements)), NKV_DTYPE_FP32, rows,
                                   static_cast<std::uint32_t>(elements.size() / rows), &query)
                  .ok());
  return query;
}

/// Rows of all kinds: alike elements, far apart ones, one channel, zeros.
inline model::Query any_query(test::Random& random, unsigned rows, unsigned dim) {
  std::vector<float> elements;
  for (unsigned row = 0; row < rows; ++row) {
    const unsigned kind = test::pick(random, 0, 7);
    const unsigned only = test::pick(random, 0, dim - 1);
    const int middle = static_cast<int>(test::pick(random, 0, 200)) - 100;
    const int spread = kind < 4 ? 3 : 25;
    for (unsigned c = 0; c < dim; ++c) {
      const float fraction = static_cast<float>(random() % (1 << 24)) / (1 << 23) - 1.0f;
      const int power =
          middle - static_cast<int>(test::pick(random, 0, static_cast<unsigned>(spread)));
      const bool is_zero = kind == 7 || (kind == 6 && c != only) || random() % 32 == 0;
      elements.push_back(is_zero ? 0.0f : std::ldexp(fraction, power));
    }
  }
  return query_of(elements, rows);
}

/// Gains within ±most.
inline std::vector<int8_t> any_gains(test::Random& random, unsigned dim, int most) {
  std::vector<int8_t> gains;
  for (unsigned c = 0; c < dim; ++c) {
    const auto above = static_cast<int>(test::pick(random, 0, static_cast<unsigned>(2 * most)));
    gains.push_back(static_cast<int8_t>(above - most));
  }
  return gains;
}

/// What a page says of the codes of its keys.
struct PageCodes {
  unsigned dim = 128;
  int set = 0;
  int top = 0;
  int mean_power = 0;
  std::vector<std::uint8_t> factors = {};  ///< Per token.
  std::vector<std::int8_t> means = {};     ///< Per channel.
  std::vector<std::byte> planes = {};      ///< Those of the signs, then the others.
};

/// The bytes of a page that a scan of codes may use, with no rows that count and no gains.
inline std::vector<std::byte> page_of(const PageCodes& codes) {
  nkv_page_header header{};
  header.magic = NKV_PAGE_MAGIC;
  header.version = NKV_PAGE_VERSION;
  header.state = NKV_PAGE_STATE_CLOSED;
  header.flags = NKV_PAGE_FLAG_CODES;
  header.k_form = NKV_ROW_FORM_RAW;
  header.v_form = NKV_ROW_FORM_NONE;
  header.dtype = NKV_DTYPE_BF16;
  header.head_dim = static_cast<std::uint16_t>(codes.dim);
  header.tokens = NKV_PAGE_TOKENS;
  header.k_top = static_cast<std::int16_t>(codes.top);
  header.k_mean_power = static_cast<std::int16_t>(codes.mean_power);
  header.sign_set = static_cast<std::uint8_t>(codes.set);
  nkv_page_layout layout;
  const nkv_page_shape shape = model::shape_of(header);
  nkv_lay_out_page(&shape, &layout);
  std::vector<std::byte> bytes(layout.total_bytes);

  std::byte* summary = bytes.data() + layout.offset[NKV_PAGE_ARRAY_CODE_SUMMARY];
  for (size_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
    summary[token / 2] |= std::byte{codes.factors[token]} << token % 2 * 4;
  }
  std::memcpy(summary + NKV_PAGE_TOKENS, codes.means.data(), codes.dim);
  const size_t plane_bytes = layout.bytes[NKV_PAGE_ARRAY_K_SIGNS];
  std::memcpy(bytes.data() + layout.offset[NKV_PAGE_ARRAY_K_SIGNS], codes.planes.data(),
              plane_bytes);
  std::memcpy(bytes.data() + layout.offset[NKV_PAGE_ARRAY_K_CODES],
              codes.planes.data() + plane_bytes, 3 * plane_bytes);
  for (const nkv_page_array array :
       {NKV_PAGE_ARRAY_CODE_SUMMARY, NKV_PAGE_ARRAY_K_SIGNS, NKV_PAGE_ARRAY_K_GAINS}) {
    model::stored_checksum(header, array) =
        model::crc32c(std::span(bytes).subspan(layout.offset[array], layout.bytes[array]));
  }
  model::seal(header);
  std::memcpy(bytes.data(), &header, sizeof header);
  return bytes;
}

/// Such a page, and a view of it.
class CodedPage {
 public:
  explicit CodedPage(const PageCodes& codes) : bytes_(page_of(codes)) {
    const model::Domain domain{.window = model::Window(bytes_), .tenant = 0};
    EXPECT_TRUE(model::Page::accept(domain, nkv_page_entry{}, 0, {}, &page_).ok());
  }
  CodedPage(const CodedPage&) = delete;
  CodedPage& operator=(const CodedPage&) = delete;

  [[nodiscard]] model::StoredCodes keys() const { return {page_, model::CodedTensor::kKeys}; }
  [[nodiscard]] std::span<const std::byte> array(nkv_page_array array) const {
    return page_.array(array);
  }

 private:
  std::vector<std::byte> bytes_;
  model::Page page_;
};

/// Codes of any kind, of rows whose largest factor is about `top`.
inline PageCodes any_codes(test::Random& random, unsigned dim, int top) {
  PageCodes codes{.dim = dim, .set = static_cast<int>(random() % NKV_SIGN_SETS), .top = top};
  const unsigned kind = test::pick(random, 0, 7);
  codes.mean_power = (top >> 4) + static_cast<int>(random() % 8) - 8;
  for (unsigned token = 0; token < NKV_PAGE_TOKENS; ++token) {
    const unsigned factor = kind == 7 ? 0 : kind == 6 ? random() % 2 : random() % 16;
    codes.factors.push_back(static_cast<std::uint8_t>(factor));
  }
  for (unsigned c = 0; c < dim; ++c) {
    codes.means.push_back(
        static_cast<std::int8_t>(kind == 5 ? -128 : static_cast<int>(random() % 256)));
  }
  for (unsigned i = 0; i < 4 * NKV_PAGE_TOKENS / 8 * dim; ++i) {
    codes.planes.push_back(static_cast<std::byte>(kind == 4 ? 0 : random() % 256));
  }
  return codes;
}

}  // namespace nearkv::rtl_test
