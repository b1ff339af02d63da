// Totals of rows' errors over pages (ARITHMETIC.md, sections 13.3 and 13.4).
#include <algorithm>

#include "codes/code_form.hpp"
#include "codes/page_kernels_portable.hpp"
#include "codes/variance_tables.hpp"

namespace nearkv::portable {
namespace {

void output_products(const std::int8_t* const* means, std::size_t pages, const std::int16_t* output,
                     std::size_t dim, std::int64_t* products) {
  for (std::size_t page = 0; page < pages; ++page) {
    products[page] = 0;
    for (std::size_t c = 0; c < dim; ++c) {
      products[page] += std::int64_t{means[page][c]} * output[c];
    }
  }
}

void mean_distances(const DistantMeans& means, std::int32_t* distances) {
  for (std::size_t page = 0; page < means.pages; ++page) {
    // Of mean * 2^above - o * 2^below, one of which is 0.
    const int apart = means.powers[page] - means.output_power;
    const int above = std::max(apart, 0);
    const int below = std::max(-apart, 0);
    const std::int64_t distance = (means.squares[page] << (2 * above)) +
                                  (means.output_squares << (2 * below)) -
                                  means.products[page] * (std::int64_t{2} << (above + below));
    const int unit = std::min(means.powers[page], means.output_power);
    const int log = distance == 0
                        ? kNothing
                        : log2_sixteenths(static_cast<std::uint64_t>(distance)) + 32 * unit;
    distances[page] = log_sum(log, means.spreads[page]);
  }
}

std::int16_t in_16_bits(std::int32_t energy) {
  return static_cast<std::int16_t>(std::clamp(energy, kNoLog16 + 1, 32767));
}

std::uint64_t power_of(std::int32_t energy) {
  return static_cast<std::uint64_t>(octaves_fixed(std::clamp(energy, -1024, 320), 24));
}

void total(const GranuleTerms& terms, std::int16_t* keys, std::int16_t* prices,
           GranuleTotals* totals) {
  for (std::size_t i = 0; i < terms.pages * terms.rows; ++i) {
    GranuleTotals& own = totals[i % terms.rows];
    for (std::size_t g = i * terms.key_count; g < (i + 1) * terms.key_count; ++g) {
      keys[g] = kNoLog16;
      if (terms.keys[g] == kNoLog16 || is_nothing(terms.of_keys[i])) continue;
      keys[g] = in_16_bits(terms.keys[g] + terms.of_keys[i]);
      own.energy += power_of(terms.keys[g] + terms.of_keys[i]);
    }
    for (std::size_t number = 0; number < terms.value_count; ++number) {
      const std::size_t g = i * terms.value_count + number;
      prices[g] = kNoLog16;
      if (terms.values[g] == kNoLog16) continue;
      const std::int32_t value = terms.values[g] + terms.of_values[i];
      const std::int32_t share = terms.shares[g] + terms.of_shares[i];
      const bool has_planes = terms.planes[i / terms.rows * terms.value_count + number] != 0;
      const std::int32_t price =
          log_sum(value, share + (has_planes ? kCoherenceOfCodes : kCoherenceOfNone));
      prices[g] = in_16_bits(price);
      own.energy += power_of(has_planes ? value : price);
      if (has_planes) own.coherent += power_of(share);
    }
  }
}

}  // namespace

void set_total_kernels(PageKernels* kernels) {
  kernels->output_products = output_products;
  kernels->mean_distances = mean_distances;
  kernels->total = total;
}

}  // namespace nearkv::portable
