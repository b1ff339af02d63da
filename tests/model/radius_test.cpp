// Soundness of the plane stage (section 5): every exact score lies within the radius of its
// midpoint, for every number of planes, if z covers whole cells. Looks inside the model.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>

#include "planes.hpp"
#include "query.hpp"
#include "rows.hpp"
#include "sequence.hpp"

namespace nearkv::test {
namespace {

using model::Int128;

constexpr uint32_t kWholeCells = 1 << 16;  // So many sixteenths of a deviation do for any weights.

// How far scores of a page lie from their midpoints, against the parts of the radius.
struct Excess {
  double whole = -1e300;              // |S / 2^32 − midpoint| − radius, at most 0.
  double without_remainder = -1e300;  // The same if weights were not rounded.
  double without_codes = -1e300;      // The same if codes were exact.
};

model::Page accept_page(Device& device, const Sequence& sequence, uint32_t index) {
  const model::Domain domain{.window = model::Window(device.window()), .tenant = Device::kTenant};
  const auto entry =
      device.read<nkv_page_entry>(sequence.page_list + index * sizeof(nkv_page_entry), 1)[0];
  model::Page page;
  EXPECT_TRUE(model::Page::accept(domain, entry, index, {}, &page).ok());
  return page;
}

void measure(const model::Page& page, const model::Query& query, int key_exponent, Excess* excess) {
  const auto cells = model::page_cells(page);
  const size_t head_dim = page.header().head_dim;
  for (size_t row = 0; row < query.rows(); ++row) {
    const model::PlaneWeights weights(query.row(row), cells, key_exponent);
    const model::RadiusTerms terms{.weight_sum = weights.weight_sum(),
                                   .squares = weights.squares(),
                                   .remainder = weights.remainder()};
    for (int planes = 1; planes <= NKV_KEY_PLANES; ++planes) {
      const auto codes = model::leading_codes(page, planes);
      const auto radius = static_cast<double>(model::radius(terms, planes, kWholeCells));
      const auto uncertainty = std::ldexp(static_cast<double>(weights.weight_sum()), 7 - planes);
      for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
        const int64_t score =
            model::exact_score(query.row(row), model::key_row(page, token, key_exponent));
        const int64_t midpoint =
            weights.midpoint(std::span(codes).subspan(token * head_dim, head_dim), planes);
        const Int128 difference = Int128{score} - (Int128{midpoint} << 32);
        const double distance =
            std::ldexp(static_cast<double>(difference < 0 ? -difference : difference), -32);
        excess->whole = std::max(excess->whole, distance - radius);
        excess->without_remainder =
            std::max(excess->without_remainder,
                     distance - (radius - static_cast<double>(weights.remainder())));
        excess->without_codes = std::max(excess->without_codes, distance - (radius - uncertainty));
      }
    }
  }
}

model::Query decode_query(const Rows& rows) {
  model::Query query;
  EXPECT_TRUE(model::Query::decode(rows.bytes(), rows.dtype, rows.count, rows.dim, &query).ok());
  return query;
}

Rows random_keys(uint8_t dtype, uint32_t dim, Random& random) {
  const bool is_spread = pick(random, 0, 1) == 0;
  const bool is_biased = pick(random, 0, 1) == 0;
  const double size = dtype == NKV_DTYPE_INT8 ? 25.0 : 1.0;
  std::vector<double> sizes;
  std::vector<double> biases;
  for (uint32_t c = 0; c < dim; ++c) {
    sizes.push_back(size * (is_spread ? std::exp2(uniform(random, -12, 2)) : 1.0));
    biases.push_back(is_biased ? 3.0 * normal(random) : 0.0);
  }
  return make_rows(dtype, NKV_PAGE_TOKENS, dim,
                   [&](uint32_t, uint32_t c) { return sizes[c] * (normal(random) + biases[c]); });
}

TEST(Radius, HoldsEveryExactScore) {
  Device device;
  Random random(1);
  Excess excess;
  for (int i = 0; i < 300; ++i) {
    const uint64_t mark = device.mark();
    const uint8_t dtype =
        i % 3 == 0 ? NKV_DTYPE_BF16 : (i % 3 == 1 ? NKV_DTYPE_FP16 : NKV_DTYPE_INT8);
    const uint32_t dim = i % 10 == 0 ? 576 : 16 * pick(random, 1, 8);
    const Rows keys = random_keys(dtype, dim, random);
    const Sequence sequence =
        append(device, keys, {.dim = 0}, {.k_form = NKV_ROW_FORM_RAW, .v_form = NKV_ROW_FORM_NONE});
    const model::Page page = accept_page(device, sequence, 0);
    const auto query = decode_query(normal_rows(NKV_DTYPE_FP32, 2, dim, 1.0, random));
    // Other pages of a list may have larger keys.
    const int key_exponent = page.header().k_exponent + static_cast<int>(pick(random, 0, 12));
    measure(page, query, key_exponent, &excess);
    device.release(mark);
  }
  std::printf(
      "largest distance minus radius: %.3g; without the remainder %.3g, without the code "
      "uncertainty %.3g\n",
      excess.whole, excess.without_remainder, excess.without_codes);
  EXPECT_LE(excess.whole, 0.0);
}

// The test above can fail: each part of the radius is needed.
TEST(Radius, NeedsItsParts) {
  Device device;
  Random random(2);
  Excess excess;
  // Keys at the lower ends of their cells, all weights of one sign: the code uncertainty adds up.
  // Weights below a half are rounded away: nothing but the remainder covers them.
  const Rows keys = make_rows(NKV_DTYPE_BF16, NKV_PAGE_TOKENS, 64, [](uint32_t t, uint32_t) {
    return t == 0 ? 255.0 : 16.0 * (t % 16);
  });
  const Sequence sequence = append(device, keys, {.dim = 0}, {.v_form = NKV_ROW_FORM_NONE});
  const model::Page page = accept_page(device, sequence, 0);
  const Rows query = make_rows(NKV_DTYPE_BF16, 1, 64, [](uint32_t, uint32_t) { return 1.0; });
  measure(page, decode_query(query), page.header().k_exponent, &excess);
  EXPECT_LE(excess.whole, 0.0);
  EXPECT_GT(excess.without_codes, 0.0);
  measure(page, decode_query(query), page.header().k_exponent + 12, &excess);
  EXPECT_LE(excess.whole, 0.0);
  EXPECT_GT(excess.without_remainder, 0.0);
}

}  // namespace
}  // namespace nearkv::test
