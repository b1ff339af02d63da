#include "attend/inclusion.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numbers>

namespace nearkv {
namespace {

constexpr double kLeastReads = 64;
constexpr int kLowestQuarter = -160;  // A of 2^-40 and less share the first bin.

/// Upper edge of a bin of A.
double edge(int bin) { return std::exp2((bin + 1 + kLowestQuarter) / 4.0); }

Inclusion inclusion_of(double factor) {
  Inclusion inclusion{};
  for (int bin = 0; bin < ContributionBins::kBins; ++bin) {
    inclusion[static_cast<std::size_t>(bin)] = std::min(1.0, factor * edge(bin));
  }
  return inclusion;
}

bool suffices(const ContributionBins& bins, const Inclusion& inclusion, double budget) {
  for (std::size_t row = 0; row < bins.rows(); ++row) {
    double variance = 0;
    for (int bin = 0; bin < ContributionBins::kBins; ++bin) {
      const double q = inclusion[static_cast<std::size_t>(bin)];
      variance += bins.share(bin, row) * (1 - q) / q;
    }
    if (variance > budget) return false;
  }
  return expected_reads(bins, inclusion) >= std::min(kLeastReads, 0.999 * bins.total_count());
}

std::uint64_t mix(std::uint64_t value) {
  value += 0x9E3779B97F4A7C15ULL;
  value = (value ^ (value >> 30)) * 0xBF58476D1CE4E5B9ULL;
  value = (value ^ (value >> 27)) * 0x94D049BB133111EBULL;
  return value ^ (value >> 31);
}

}  // namespace

int ContributionBins::bin_of(float squared) {
  if (!(squared >= std::numeric_limits<float>::min())) return 0;
  if (std::isinf(squared)) return kBins - 1;
  // Half octaves of A^2 are quarter octaves of A.
  const auto bits = std::bit_cast<std::uint32_t>(squared);
  const bool upper =
      std::bit_cast<float>((bits & 0x7FFFFFU) | 0x3F800000U) >= std::numbers::sqrt2_v<float>;
  const int quarters = 2 * (static_cast<int>(bits >> 23) - 127) + (upper ? 1 : 0);
  return std::clamp(quarters - kLowestQuarter, 0, kBins - 1);
}

void ContributionBins::add(int bin, double count, std::span<const double> squares) {
  const auto index = static_cast<std::size_t>(bin);
  counts_[index] += count;
  for (std::size_t row = 0; row < rows_; ++row) shares_[index * rows_ + row] += squares[row];
}

void ContributionBins::merge(const ContributionBins& other) {
  for (std::size_t i = 0; i < counts_.size(); ++i) counts_[i] += other.counts_[i];
  for (std::size_t i = 0; i < shares_.size(); ++i) shares_[i] += other.shares_[i];
}

double ContributionBins::count_from(int lowest) const {
  double total = 0;
  for (int bin = lowest; bin < kBins; ++bin) total += count(bin);
  return total;
}

int ContributionBins::settled_from() const {
  std::vector<double> below(rows_);
  for (int bin = 0; bin < kBins; ++bin) {
    for (std::size_t row = 0; row < rows_; ++row) {
      below[row] += share(bin, row);
      if (below[row] > 1) return bin;
    }
  }
  return kBins;
}

Inclusion choose_inclusion(const ContributionBins& bins, double budget) {
  int low = -200;  // Quarter octaves of the factor: too small ...
  int high = 400;  // ... and always enough.
  while (high - low > 1) {
    const int middle = (low + high) / 2;
    (suffices(bins, inclusion_of(std::exp2(middle / 4.0)), budget) ? high : low) = middle;
  }
  return inclusion_of(std::exp2(high / 4.0));
}

double expected_reads(const ContributionBins& bins, const Inclusion& inclusion) {
  double reads = 0;
  for (int bin = 0; bin < ContributionBins::kBins; ++bin) {
    reads += bins.count(bin) * inclusion[static_cast<std::size_t>(bin)];
  }
  return reads;
}

std::uint32_t inclusion_hash(std::uint32_t seed, std::uint32_t round, std::uint32_t token) {
  const std::uint64_t stream = mix(std::uint64_t{seed} + (std::uint64_t{round} << 32));
  return static_cast<std::uint32_t>(mix(stream + token));
}

}  // namespace nearkv
