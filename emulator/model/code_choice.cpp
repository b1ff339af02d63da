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
constexpr int kCostBits = 8;
constexpr int kCostOfRow = 4096;  // Of a granule of one token, in 1/256 of a plane.

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

// Levels of one granule, and what they leave of its tokens.
struct Granule {
  size_t page;
  uint32_t number;
  TokenMask tokens;
  std::span<const int> levels;  // From the present one.
};

// Chooses for one granule: `left(token, planes)` is what planes leave of a token, against the
// threshold.
template <typename Left>
void choose(const Granule& granule, const Left& left, TensorReads* next) {
  const int64_t row_cost = kCostOfRow / next->granule();
  const auto share = [&](uint32_t token, int planes) {
    const int sixteenths = std::clamp(left(token, planes), -1024, kMostBin * 4);
    return std::min(octaves_fixed(sixteenths, kCostBits), row_cost);
  };
  std::optional<int64_t> least;
  int chosen = granule.levels.front();
  for (const int planes : granule.levels) {
    int64_t cost = int64_t{planes - granule.levels.front()} << kCostBits;
    for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
      if (has_token(granule.tokens, token)) cost += share(token, planes);
    }
    if (least && cost >= *least) continue;
    least = cost;
    chosen = planes;
  }
  next->planes[granule.page][granule.number] = static_cast<uint8_t>(chosen);
  for (uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
    if (has_token(granule.tokens, token) && share(token, chosen) == row_cost) {
      next->rows[granule.page] |= token_bit(token);
    }
  }
}

std::span<const int> levels_from(std::span<const int> levels, int present) {
  return levels.subspan(static_cast<size_t>(std::ranges::find(levels, present) - levels.begin()));
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

// Chooses for the granules of a tensor whose error is worth it. `left(errors, page, token, planes)`
// is what planes leave of a token in a row.
template <typename Error, typename Left>
void choose_of_tensor(const CodedList& list, const TensorReads& reads,
                      std::span<const CodeErrors> errors, std::span<const int> levels,
                      int threshold, const Error& error, const Left& left, TensorReads* next) {
  const int worth = 4 * threshold + log_of_cost(reads);
  for (size_t page = 0; page < list.size(); ++page) {
    for (uint32_t number = 0; number < reads.granules(); ++number) {
      if (error(page, number) < worth) continue;
      choose(
          {.page = page,
           .number = number,
           .tokens = reads.tokens_of(number) & list.coded(page) & ~reads.rows[page],
           .levels = levels_from(levels, reads.planes[page][number])},
          [&](uint32_t token, int planes) {
            int largest = kNothing;
            for (const CodeErrors& row : errors) {
              largest = std::max(largest, left(row, page, token, planes));
            }
            return largest - worth;
          },
          next);
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
  static constexpr std::array kKeyLevels = {1, 2, 3, 4};
  static constexpr std::array kValueLevels = {0, 2, 3};
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
