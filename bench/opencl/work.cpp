#include "work.hpp"

#include <cstdint>
#include <random>
#include <vector>

#include "nkv_abi.h"

namespace nearkv::bench {

namespace {

constexpr std::size_t kChannels = 128;
constexpr std::size_t kRows = 8;
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
  rows_ = runtime.upload<std::uint16_t>(some_elements(tokens * kChannels, /*seed=*/1));
  query_ = runtime.upload<std::int32_t>(std::vector<std::int32_t>(kRows * kChannels, 1 << 20));
  scores_ = runtime.allocate(tokens * kRows * sizeof(std::int64_t));

  blocks_ = runtime.allocate(pages_ * (4 * kChannels + NKV_PAGE_TOKENS * kChannels));
  is_good_ = runtime.zeros<std::int32_t>(pages_);
}

void Work::run() {
  score();
  quantise();
  std::vector<std::int32_t> last(1);
  runtime_.download<std::int32_t>(is_good_, last);  // Waits for all of them.
}

void Work::score() {
  launch("score", pages_ * kPageBytes, cl::NDRange(tokens_, kRows), rows_,
         static_cast<cl_uint>(2 * kChannels), kWidth, cl_int{0}, cl_int{NKV_DTYPE_BF16}, rows_,
         query_, cl_int{kKeyExponent}, scores_);
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
