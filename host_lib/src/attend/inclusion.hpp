// Which tokens BOUNDED reads next (ARITHMETIC.md 8): contributions to the error in logarithmic
// bins, and inclusion probabilities that keep every row's variance within its target.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace nearkv {

/// Tokens by their normalised contribution A, in quarter octaves, with each row's share.
class ContributionBins {
 public:
  static constexpr int kBins = 256;

  explicit ContributionBins(std::size_t rows)
      : rows_(rows), counts_(kBins), shares_(kBins * rows) {}

  /// Bin of a squared contribution: quarter octaves of A, clamped at both ends.
  [[nodiscard]] static int bin_of(float squared);

  /// Adds `count` tokens to a bin; `squares` are the rows' summed a^2 / T^2.
  void add(int bin, double count, std::span<const double> squares);
  void merge(const ContributionBins& other);

  [[nodiscard]] double count(int bin) const { return counts_[static_cast<std::size_t>(bin)]; }
  [[nodiscard]] double share(int bin, std::size_t row) const {
    return shares_[static_cast<std::size_t>(bin) * rows_ + row];
  }
  [[nodiscard]] std::size_t rows() const { return rows_; }
  [[nodiscard]] double total_count() const { return count_from(0); }
  [[nodiscard]] double count_from(int lowest) const;

  /// The highest bin below which every row's summed share is at most one target: reading the bins
  /// from here up leaves an error of one standard deviation, were the tokens' errors independent.
  [[nodiscard]] int settled_from() const;

 private:
  std::size_t rows_;
  std::vector<double> counts_;
  std::vector<double> shares_;
};

/// Inclusion probability of each bin.
using Inclusion = std::array<double, ContributionBins::kBins>;

/// Smallest probabilities, proportional to A, with sum of a^2 (1 - q) / q at most `budget` * T^2
/// for every row and at least 64 tokens expected (or all there are).
[[nodiscard]] Inclusion choose_inclusion(const ContributionBins& bins, double budget);

/// Tokens that the inclusion reads on average.
[[nodiscard]] double expected_reads(const ContributionBins& bins, const Inclusion& inclusion);

/// 32 uniform bits for a token: a fixed function of seed, round and token.
[[nodiscard]] std::uint32_t inclusion_hash(std::uint32_t seed, std::uint32_t round,
                                           std::uint32_t token);

}  // namespace nearkv
