#include "code_choice.hpp"

#include <algorithm>
#include <array>
#include <vector>

#include "code_tables.hpp"
#include "number.hpp"

namespace nearkv::model {

namespace {

constexpr int kLeastBin = -96;
constexpr int kMostBin = 80;
constexpr int kGoalBits = 24;
constexpr int kKeyCut = 2;  // Bins from the threshold up in which a granule is worth a read.
constexpr int kValueCut = 5;

// How a tensor's granules are read, in sixteenths of octaves of what one burst of a plane is worth.
struct Levels {
  // x of a granule before it has more planes than the scan read, from which on these are worth
  // reading.
  struct Level {
    int planes;
    int least;
  };
  std::array<Level, 3> levels;
  // By how much less x is by so many planes.
  std::array<int, NKV_KEY_CODE_PLANES + 1> falls;
};
// What a token's error is from which on its row is worth reading, by log2 of the granule's tokens.
constexpr std::array<int, 6> kRowWorths = {64, 48, 32, 16, 0, -16};
constexpr Levels kKeyLevels{.levels = {{{2, 8}, {3, 43}, {4, 74}}}, .falls = {0, 0, 33, 61, 84}};
constexpr Levels kValueLevels{.levels = {{{2, 24}, {3, 64}, {3, 64}}}, .falls = {0, 0, 50, 78, 0}};

int log_of_cost(const TensorReads& reads) { return log2_sixteenths(reads.burst_cost()); }

// floor(2^(i/16 + 24)) of i = 2 mod 4 sixteenths that bins stand for.
int64_t middle_of(int bin) { return octaves_fixed(4 * bin + 2, kGoalBits); }

// Granules by the error that they hold, per burst of a plane.
class Histogram {
 public:
  Histogram(int cut, uint64_t burst_cost) : cut_(cut), burst_cost_(burst_cost) {}

  void count(int error) {
    const int bin = std::clamp(error >> 2, kLeastBin, kMostBin);
    ++counts_[static_cast<size_t>(bin - kLeastBin)];
  }

  // What is left of the errors at each threshold, kLeastThreshold to kMostBin, 24 fraction bits.
  [[nodiscard]] std::vector<Int128> left() const {
    std::vector<Int128> left;
    Int128 below = 0;  // Of the bins below the cut,
    Int128 above = 0;  // and granules of the others.
    for (const uint64_t count : counts_) above += count;
    int bin = kLeastBin;
    for (int threshold = kLeastThreshold; threshold <= kMostBin; ++threshold) {
      for (; bin < std::min(threshold + cut_, kMostBin + 1); ++bin) {
        const Int128 count = counts_[static_cast<size_t>(bin - kLeastBin)];
        below += count * middle_of(bin);
        above -= count;
      }
      left.push_back((below + above * octaves_fixed(4 * threshold - 32, kGoalBits)) * burst_cost_);
    }
    return left;
  }

 private:
  int cut_;
  uint64_t burst_cost_;
  std::array<uint64_t, kMostBin - kLeastBin + 1> counts_{};
};

// The largest error of a granule's keys in a row,
int granule_key(std::span<const CodeErrors> errors, size_t page, uint32_t granule) {
  int largest = kNothing;
  for (const CodeErrors& row : errors) largest = std::max(largest, row.granule_key(page, granule));
  return largest;
}

// and the largest price of its values.
int granule_price(std::span<const CodeErrors> errors, const CodeReads& reads, size_t page,
                  uint32_t granule) {
  int largest = kNothing;
  for (const CodeErrors& row : errors) {
    const int planes = reads.values.planes[page][granule];
    largest = std::max(largest, row.granule_value(page, granule).price(planes));
  }
  return largest;
}

// Counts the granules of a tensor that have a visible token; `error(page, number)` is one's.
template <typename Error>
Histogram histogram_of(const CodedList& list, const TensorReads& reads, int cut,
                       const Error& error) {
  Histogram histogram(cut, reads.burst_cost());
  for (size_t page = 0; page < list.size(); ++page) {
    for (uint32_t number = 0; number < reads.granules(); ++number) {
      if ((reads.tokens_of(number) & list.coded(page)) == 0) continue;
      const int own = error(page, number);
      if (!is_nothing(own)) histogram.count(own - log_of_cost(reads));
    }
  }
  return histogram;
}

// Chooses for the granules of a tensor whose error is worth it: planes by the granule's error, and
// rows of tokens whose own is still worth one with those planes. `error(page, number)` is a
// granule's, `token_error(row, page, token, planes)` a token's in a row with so many planes.
template <typename Error, typename TokenError>
void choose_of_tensor(const CodedList& list, const TensorReads& reads,
                      std::span<const CodeErrors> errors, const Levels& levels, int threshold,
                      const Error& error, const TokenError& token_error, TensorReads* next) {
  const int worth = 4 * threshold + log_of_cost(reads);
  const auto log2_tokens = static_cast<size_t>(std::countr_zero(reads.granule()));
  for (size_t page = 0; page < list.size(); ++page) {
    for (uint32_t number = 0; number < reads.granules(); ++number) {
      const int own = error(page, number);
      if (own < worth) continue;
      uint8_t& planes = next->planes[page][number];
      const int now = levels.falls[planes];
      for (const Levels::Level& level : levels.levels) {
        if (own - worth + now >= level.least) planes = static_cast<uint8_t>(level.planes);
      }
      planes = std::max(planes, reads.planes[page][number]);
      const int row_worth = worth + kRowWorths[log2_tokens];
      if (own - levels.falls[planes] + now < row_worth) continue;
      const TokenMask unread = reads.tokens_of(number) & list.coded(page) & ~reads.rows[page];
      TokenMask rows = 0;
      for_each_token(unread, [&](uint32_t token) {
        for (const CodeErrors& row : errors) {
          if (token_error(row, page, token, planes) >= row_worth) rows |= token_bit(token);
        }
      });
      if (4 * std::popcount(rows) >= 3 * std::popcount(unread)) {
        rows = unread;
        planes = reads.planes[page][number];
      }
      next->rows[page] |= rows;
    }
  }
}

}  // namespace

int code_threshold(const CodedList& list, const CodeReads& reads,
                   std::span<const CodeErrors> errors, std::optional<int> last) {
  const Histogram keys = histogram_of(list, reads.keys, kKeyCut, [&](size_t page, uint32_t number) {
    return granule_key(errors, page, number);
  });
  const Histogram values = histogram_of(
      list, reads.values, kValueCut,
      [&](size_t page, uint32_t number) { return granule_price(errors, reads, page, number); });
  const std::vector<Int128> of_keys = keys.left();
  const std::vector<Int128> of_values = values.left();
  int threshold = kMostBin;
  size_t at = of_keys.size() - 1;
  while (at > 0 && of_keys[at] + of_values[at] > Int128{1} << kGoalBits) {
    --threshold;
    --at;
  }
  return last ? std::min(threshold, *last - kThresholdStep) : threshold;
}

CodeReads choose_reads(const CodedList& list, const CodeReads& reads,
                       std::span<const CodeErrors> errors, int threshold, bool shares_rows) {
  CodeReads next = reads;
  choose_of_tensor(
      list, reads.keys, errors, kKeyLevels, threshold,
      [&](size_t page, uint32_t number) { return granule_key(errors, page, number); },
      [](const CodeErrors& row, size_t page, uint32_t token, int planes) {
        return row.key(page, token, planes);
      },
      &next.keys);
  choose_of_tensor(
      list, reads.values, errors, kValueLevels, threshold,
      [&](size_t page, uint32_t number) { return granule_price(errors, reads, page, number); },
      [](const CodeErrors& row, size_t page, uint32_t token, int planes) {
        return row.price(page, token, planes);
      },
      &next.values);
  if (!shares_rows) return next;
  for (size_t page = 0; page < list.size(); ++page) {
    next.keys.rows[page] |= next.values.rows[page];
    next.values.rows[page] = next.keys.rows[page];
  }
  return next;
}

}  // namespace nearkv::model
