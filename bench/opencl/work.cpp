#include "work.hpp"

#include <cstdint>
#include <numeric>
#include <random>
#include <vector>

#include "nkv_abi.h"

namespace nearkv::bench {

namespace {

constexpr std::size_t kChannels = 128;
constexpr std::size_t kRows = 8;
constexpr int kPlanes = 3;
constexpr int kKeyExponent = 127;
constexpr std::size_t kPageBytes = NKV_PAGE_TOKENS * kChannels * sizeof(std::uint16_t);
constexpr auto kWidth = static_cast<cl_uint>(kChannels);

// Any bytes, of which bf16 elements are finite and of moderate size.
std::vector<std::uint16_t> some_elements(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::uint16_t> elements(count);
  for (std::uint16_t& element : elements) {
    element = static_cast<std::uint16_t>((random() & 0x87ff) | 0x3800);
  }
  return elements;
}

}  // namespace

Work::Work(opencl::Runtime& runtime, std::size_t tokens)
    : runtime_(runtime), tokens_(tokens), pages_(tokens / NKV_PAGE_TOKENS) {
  std::vector<std::uint32_t> numbers(tokens);
  std::iota(numbers.begin(), numbers.end(), 0U);
  rows_ = runtime.upload<std::uint16_t>(some_elements(tokens * kChannels, /*seed=*/1));
  page_of_row_ = runtime.zeros<std::uint32_t>(tokens);
  query_ = runtime.upload<std::int32_t>(std::vector<std::int32_t>(kRows * kChannels, 1 << 20));
  scores_ = runtime.allocate(tokens * kRows * sizeof(std::int64_t));

  steps_ = runtime.upload<std::int32_t>(std::vector<std::int32_t>(pages_, -10));
  places_ = runtime.upload<std::uint32_t>(numbers);
  visible_ = runtime.upload<std::uint64_t>(std::vector<std::uint64_t>(pages_, ~0ULL));
  weights_ = runtime.allocate(pages_ * kRows * kChannels * sizeof(std::int32_t));
  sums_ = runtime.allocate(pages_ * kRows * 5 * sizeof(std::int64_t));
  radii_ = runtime.allocate(pages_ * kRows * sizeof(std::int64_t));
  midpoints_ = runtime.allocate(tokens * kRows * sizeof(std::int16_t));
  bins_ = runtime.zeros<std::uint32_t>(kRows * NKV_HISTOGRAM_BINS);
  thresholds_ = runtime.allocate(kRows * sizeof(std::int32_t));
  chosen_ = runtime.zeros<std::uint64_t>(pages_);
  taus_ = runtime.zeros<std::int64_t>(kRows);

  blocks_ = runtime.allocate(pages_ * (4 * kChannels + NKV_PAGE_TOKENS * kChannels));
  is_good_ = runtime.zeros<std::int32_t>(pages_);
}

void Work::run() {
  score();
  scan_and_select();
  quantise();
  std::vector<std::int32_t> last(1);
  runtime_.download<std::int32_t>(is_good_, last);  // Waits for all of them.
}

void Work::score() {
  launch("score", pages_ * kPageBytes, cl::NDRange(tokens_, kRows), rows_,
         static_cast<cl_uint>(tokens_), static_cast<cl_uint>(2 * kChannels), kWidth, cl_int{0},
         cl_int{NKV_DTYPE_BF16}, rows_, page_of_row_, query_, cl_int{kKeyExponent}, scores_);
}

// Any bytes serve as digests and planes.
void Work::scan_and_select() {
  const cl::NDRange by_page(opencl::in_groups(pages_), kRows);
  const cl::NDRange by_token(tokens_, kRows);
  const auto pages = static_cast<cl_uint>(pages_);
  const std::size_t plane_bytes = tokens_ * kChannels / 8;
  const std::size_t midpoint_bytes = tokens_ * kRows * sizeof(std::int16_t);
  launch("fold", pages_ * kChannels * sizeof(std::uint16_t), by_page, rows_, steps_, places_, pages,
         query_, kWidth, cl_int{kKeyExponent}, weights_, sums_);
  launch("digest_bound", pages_ * kRows * 5 * sizeof(std::int64_t), by_page, sums_, pages,
         cl_int{kPlanes}, cl_uint{64}, radii_);
  launch("midpoints", plane_bytes * kPlanes, by_token, rows_, cl_uint{kPlanes}, kWidth, places_,
         weights_, sums_, visible_, midpoints_);
  launch("count_bins", midpoint_bytes, by_token, midpoints_, visible_, bins_);
  launch("threshold", kRows * NKV_HISTOGRAM_BINS * sizeof(std::uint32_t),
         cl::NDRange(opencl::in_groups(kRows)), bins_, static_cast<cl_uint>(kRows), cl_ulong{512},
         thresholds_);
  launch("best_tokens", midpoint_bytes, by_token, midpoints_, visible_, thresholds_, chosen_);
  launch("alive_tokens", midpoint_bytes, by_token, midpoints_, sums_, radii_, cl_int{0}, taus_,
         visible_, chosen_);
  launch("sharpen", plane_bytes, by_token, rows_, cl_int{kPlanes + 1}, kWidth, places_, weights_,
         sums_, visible_, midpoints_);
}

void Work::quantise() {
  const cl::NDRange by_channel(kChannels, pages_);
  const cl::NDRange by_element(kChannels, tokens_);
  const std::size_t bytes = pages_ * kPageBytes;
  launch("quantise_groups", bytes, by_channel, rows_, cl_int{NKV_CODEC_INT8}, cl_int{1}, kWidth,
         blocks_, is_good_);
  launch("quantise_codes", bytes, by_element, rows_, cl_int{NKV_CODEC_INT8}, cl_int{1}, kWidth,
         blocks_);
  launch("dequantise", bytes / 2, by_element, blocks_, cl_int{NKV_CODEC_INT8}, cl_int{1}, kWidth,
         rows_, is_good_);
}

}  // namespace nearkv::bench
