// nearkv_score against the model's exact scores.
#include "kernels/score.hpp"

#include <gtest/gtest.h>

#include "kernel_list.hpp"
#include "scan_pages.hpp"

namespace nearkv::hls_test {
namespace {

Bursts score(const ScanList& list, int group) {
  const KernelList pages(list.pages());
  const Bursts query = query_bursts(list.query(), list.head_dim());
  Bursts scores(pages.first_burst.size() * NKV_PAGE_TOKENS);
  nearkv_score(pages.memory.data(), pages.first_burst.data(), pages.count(),
               place_of(list.pages(), NKV_PAGE_ARRAY_K_EXPONENTS),
               place_of(list.pages(), NKV_PAGE_ARRAY_K_ROWS),
               {.is_delta4 = false, .channels = static_cast<int>(list.head_dim())}, query.data(),
               group, list.key_exponent(), scores.data());
  return scores;
}

void expect_models(const ListShape& shape, std::uint64_t number, int group = kernels::kRows) {
  SCOPED_TRACE(test::case_name(number));
  test::Random random = test::case_random(number);
  const ScanList list(shape, random);
  const Bursts scores = score(list, group);
  for (std::size_t page = 0; page < list.pages().size(); ++page) {
    for (std::uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
      for (int row = 0; row < kernels::kRows; ++row) {
        const auto part = kernels::part_of<64>(scores[page * NKV_PAGE_TOKENS + token], row);
        const std::int64_t expected =
            row < group ? list.score(static_cast<std::size_t>(row), page, token) : 0;
        ASSERT_EQ(static_cast<std::int64_t>(part.to_uint64()), expected)
            << "page " << page << " token " << token << " row " << row;
      }
    }
  }
}

TEST(ScoreTest, EveryDimension) {
  for (std::uint32_t dim = 16; dim <= 128; dim += 16) {
    expect_models({.head_dim = dim, .pages = 3}, dim);
    if (HasFatalFailure()) return;
  }
}

TEST(ScoreTest, EveryKindOfKeys) {
  std::uint64_t number = 1000;
  for (const Keys keys : {Keys::kNormal, Keys::kBiased, Keys::kAnyBits, Keys::kZero}) {
    for (const std::uint32_t dim : {48u, 128u}) {
      expect_models({.head_dim = dim, .pages = 4, .keys = keys}, ++number);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(ScoreTest, FewerRows) {
  for (const int group : {1, 5, 7}) {
    expect_models({.head_dim = 80, .pages = 2}, 2000, group);
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace nearkv::hls_test
