// A threshold by digits from the top, of 12 bits each: a pass counts digits, the next one keeps
// what lies above the threshold's digit and goes on with what shares it. The first digit begins
// where the scores' range does, so that it usually decides nearly all.
#include "kernels/topk.hpp"

#include "kernels/number.hpp"

using namespace nearkv::kernels;

namespace {

constexpr int kDigitBits = 12;
constexpr int kDigits = 1 << kDigitBits;
constexpr int kScoreBits = 60;
constexpr int kPasses = kScoreBits / kDigitBits;

using Key = ap_uint<kScoreBits>;  // A score less the least one.
using Index = ap_uint<20>;
using Count = ap_uint<16>;

struct Entry {
  Key key;
  Index token;
};

struct Range {
  std::int64_t least;
  int bits;  // Of the largest key.
  int count;
};

ap_uint<kDigitBits> digit_of(const Key& key, int shift) {
#pragma HLS inline
  return ap_uint<kDigitBits>(key >> shift);
}

/// The row's visible scores on chip, and their range.
Range load(const Burst* scores, const std::uint64_t* visible, int page_count, int row,
           std::int64_t score[kTopkTokens], Index token[kTopkTokens]) {
  std::int64_t least = INT64_MAX;
  std::int64_t greatest = INT64_MIN;
  int count = 0;
load_pages:
  for (int page = 0; page < page_count; ++page) {
#pragma HLS loop_tripcount max = 512
    const TokenMask mask = visible[page];
  load_tokens:
    for (int i = 0; i < kTokens; ++i) {
#pragma HLS pipeline II = 1  // A burst per token: the kernel's bound, and the port's.
      const std::int64_t read = ap_int<64>(part_of<64>(scores[page * kTokens + i], row)).to_int64();
      if (mask[i] == 1 && count < kTopkTokens) {
        score[count] = read;
        token[count] = page * kTokens + i;
        least = least_of(least, read);
        greatest = largest_of(greatest, read);
        ++count;
      }
    }
  }
  const std::uint64_t span =
      count == 0 ? 0 : static_cast<std::uint64_t>(greatest) - static_cast<std::uint64_t>(least);
  return Range{least, bit_width(ap_uint<64>(span)), count};
}

void make_keys(const std::int64_t score[kTopkTokens], const Index token[kTopkTokens], Range range,
               Entry entries[kTopkTokens]) {
subtract_least:
  for (int i = 0; i < range.count; ++i) {
#pragma HLS loop_tripcount max = 32768
#pragma HLS pipeline II = 1  // Entries do not depend on one another.
    entries[i] =
        Entry{Key(static_cast<std::uint64_t>(score[i]) - static_cast<std::uint64_t>(range.least)),
              token[i]};
  }
}

void count_digits(const Entry* entries, int count, int shift, Count counts[kDigits]) {
clear_counts:
  for (int digit = 0; digit < kDigits; ++digit) {
#pragma HLS pipeline II = 1  // One memory.
    counts[digit] = 0;
  }
  ap_uint<kDigitBits> last = 0;
  Count of_last = 0;
count_entries:
  for (int i = 0; i < count; ++i) {
#pragma HLS loop_tripcount max = 32768
// A count is read only when another digit came last, and that one is written back first.
#pragma HLS dependence variable = counts inter distance = 2 true
#pragma HLS pipeline II = 1  // By the register `of_last`.
    const ap_uint<kDigitBits> digit = digit_of(entries[i].key, shift);
    if (digit != last) {
      counts[last] = of_last;
      last = digit;
      of_last = counts[digit];
    }
    of_last += 1;
  }
  counts[last] = of_last;
}

/// The digit in which the `wanted`-th from the top lies, and how many lie above.
struct Cut {
  int digit;
  int above;
};

Cut find_cut(const Count counts[kDigits], int wanted) {
  Cut cut{0, 0};
  int reached = 0;
  bool is_found = false;
walk_digits:
  for (int digit = kDigits - 1; digit >= 0; --digit) {
#pragma HLS pipeline II = 1  // An addition carries on.
    const int in_digit = counts[digit].to_int();
    if (!is_found && reached + in_digit >= wanted) {
      is_found = true;
      cut = Cut{digit, reached};
    }
    reached += in_digit;
  }
  return cut;
}

/// Moves what lies above the cut to `chosen`, and what lies in it to the front; returns how many
/// that are.
int part_entries(Entry* entries, int count, int shift, int cut_digit, Entry chosen[kLargestK],
                 int* chosen_count) {
  int kept = 0;
  int taken = *chosen_count;
part_entries:
  for (int i = 0; i < count; ++i) {
#pragma HLS loop_tripcount max = 32768
// What is kept goes to a place that has been read already.
#pragma HLS dependence variable = entries inter false
#pragma HLS pipeline II = 1  // An entry is read and one written.
    const Entry entry = entries[i];
    const int digit = digit_of(entry.key, shift).to_int();
    if (digit > cut_digit) chosen[taken++] = entry;
    if (digit == cut_digit) entries[kept++] = entry;
  }
  *chosen_count = taken;
  return kept;
}

/// The best `k` of the entries, in any order but for equal ones, which stay in theirs.
int choose(Entry entries[kTopkTokens], Range range, int k, Entry chosen[kLargestK],
           Count counts[kDigits]) {
  int chosen_count = 0;
  int left = range.count;
  int shift = largest_of(range.bits - kDigitBits, 0);
choose_digits:
  for (int pass = 0; pass < kPasses; ++pass) {
    if (left == 0 || chosen_count + left <= k) break;
    count_digits(entries, left, shift, counts);
    const Cut cut = find_cut(counts, k - chosen_count);
    left = part_entries(entries, left, shift, cut.digit, chosen, &chosen_count);
    if (shift == 0) break;
    shift = largest_of(shift - kDigitBits, 0);
  }
  // Equal to the last digit, or all that there are: the first ones have the lowest indices.
  const int rest = least_of(left, k - chosen_count);
take_rest:
  for (int i = 0; i < rest; ++i) {
#pragma HLS loop_tripcount max = 4096
#pragma HLS pipeline II = 1  // A copy.
    chosen[chosen_count + i] = entries[i];
  }
  return chosen_count + rest;
}

/// One pass of a stable sort by digits, the largest first.
void sort_by_digit(const Entry from[kLargestK], int count, int shift, Entry to[kLargestK],
                   Count counts[kDigits]) {
  count_digits(from, count, shift, counts);
  Count place = 0;
place_digits:
  for (int digit = kDigits - 1; digit >= 0; --digit) {
#pragma HLS pipeline II = 1  // Read and written once each.
    const Count in_digit = counts[digit];
    counts[digit] = place;
    place += in_digit;
  }
move_entries:
  for (int i = 0; i < count; ++i) {
#pragma HLS loop_tripcount max = 4096
#pragma HLS pipeline II = 2  // A place is read, used and raised, maybe twice in a row.
    const ap_uint<kDigitBits> digit = digit_of(from[i].key, shift);
    const Count at = counts[digit];
    counts[digit] = at + 1;
    to[at] = from[i];
  }
}

void write_best(const Entry sorted[kLargestK], int count, std::int64_t least, RankedToken* best) {
write_best:
  for (int i = 0; i < count; ++i) {
#pragma HLS loop_tripcount max = 4096
#pragma HLS pipeline II = 1  // 16 bytes per cycle; the port widens them to bursts.
    best[i] = RankedToken{
        static_cast<std::int64_t>(sorted[i].key.to_uint64() + static_cast<std::uint64_t>(least)),
        sorted[i].token.to_int()};
  }
}

}  // namespace

extern "C" int nearkv_topk(const Burst* scores, const std::uint64_t* visible, int page_count,
                           int row, int k, RankedToken* best) {
#pragma HLS interface mode = m_axi port = scores bundle = scores max_read_burst_length = 64
#pragma HLS interface mode = m_axi port = visible bundle = masks
#pragma HLS interface mode = m_axi port = best bundle = results
  static std::int64_t score[kTopkTokens];
  static Index token[kTopkTokens];
  static Entry entries[kTopkTokens];
  static Entry chosen[kLargestK];
  static Entry sorted[kLargestK];
  static Count counts[kDigits];
#pragma HLS bind_storage variable = score type = ram_2p impl = uram
#pragma HLS bind_storage variable = entries type = ram_2p impl = uram
  const Range range = load(scores, visible, page_count, row, score, token);
  make_keys(score, token, range, entries);
  const int count = choose(entries, range, least_of(k, kLargestK), chosen, counts);
sort_digits:
  for (int pass = 0; pass < kPasses; pass += 2) {
    // Two passes bring the entries back to where they were; digits above the range are all zero.
    if (pass * kDigitBits >= range.bits) break;
    sort_by_digit(chosen, count, pass * kDigitBits, sorted, counts);
    const int next = least_of((pass + 1) * kDigitBits, kScoreBits - 1);
    sort_by_digit(sorted, count, next, chosen, counts);
  }
  write_best(chosen, count, range.least, best);
  return count;
}
