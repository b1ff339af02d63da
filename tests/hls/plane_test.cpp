// nearkv_digest_bound, nearkv_plane_score and nearkv_threshold against the model's plane stage.
#include <gtest/gtest.h>

#include "kernel_list.hpp"
#include "kernels/digest_bound.hpp"
#include "kernels/plane_score.hpp"
#include "kernels/threshold.hpp"
#include "midpoints.hpp"
#include "planes.hpp"
#include "scan_pages.hpp"

namespace nearkv::hls_test {
namespace {

constexpr int kRows = kernels::kRows;

std::int64_t field(const kernels::Burst& burst, int index) {
  return static_cast<std::int64_t>(kernels::part_of<64>(burst, index).to_uint64());
}

void expect_bounds(const ScanList& list, int planes, std::uint32_t sixteenths) {
  const KernelList pages(list.pages());
  const Bursts query = query_bursts(list.query(), list.head_dim());
  Bursts bounds(pages.first_burst.size() * kRows);
  nearkv_digest_bound(pages.memory.data(), pages.first_burst.data(), pages.steps.data(),
                      pages.count(), place_of(list.pages(), NKV_PAGE_ARRAY_K_DIGEST), query.data(),
                      kRows, static_cast<int>(list.head_dim()), list.key_exponent(), planes,
                      static_cast<int>(sixteenths), bounds.data());
  for (std::size_t page = 0; page < list.pages().size(); ++page) {
    const auto cells = model::page_cells(list.pages()[page].page);
    for (std::size_t row = 0; row < kRows; ++row) {
      const model::PlaneWeights weights(list.query().row(row), cells, list.key_exponent());
      const kernels::Burst& bound = bounds[page * kRows + row];
      ASSERT_EQ(field(bound, kernels::kConstant), weights.constant()) << page << ' ' << row;
      ASSERT_EQ(field(bound, kernels::kWeightSum), weights.weight_sum());
      ASSERT_EQ(field(bound, kernels::kSquares), weights.squares());
      ASSERT_EQ(field(bound, kernels::kRemainder), weights.remainder());
      const model::RadiusTerms terms{.weight_sum = weights.weight_sum(),
                                     .squares = weights.squares(),
                                     .remainder = weights.remainder()};
      ASSERT_EQ(field(bound, kernels::kRadius), model::radius(terms, planes, sixteenths))
          << planes << " planes, z " << sixteenths;
    }
  }
}

struct Scanned {
  Bursts midpoints;
  Bursts scales;
  std::vector<std::uint64_t> visible;
};

Scanned scan(const ScanList& list, int planes) {
  const KernelList pages(list.pages());
  const Bursts query = query_bursts(list.query(), list.head_dim());
  Scanned scanned{.midpoints = Bursts(pages.first_burst.size() * kernels::kQuads),
                  .scales = Bursts(2),
                  .visible = pages.visible};
  kernels::ArrayPlace at = place_of(list.pages(), NKV_PAGE_ARRAY_K_PLANE0);
  at.bursts *= static_cast<std::uint32_t>(planes);
  nearkv_plane_score(pages.memory.data(), pages.first_burst.data(), pages.steps.data(),
                     pages.visible.data(), pages.count(),
                     place_of(list.pages(), NKV_PAGE_ARRAY_K_DIGEST), at, query.data(), kRows,
                     static_cast<int>(list.head_dim()), list.key_exponent(), planes,
                     scanned.midpoints.data(), scanned.scales.data());
  return scanned;
}

void expect_midpoints(const ScanList& list, int planes) {
  const Scanned scanned = scan(list, planes);
  const model::Midpoints expected(list.pages(), list.query(), list.key_exponent(), planes);
  for (std::size_t row = 0; row < kRows; ++row) {
    const int lane = static_cast<int>(row);
    ASSERT_EQ(field(scanned.scales[0], lane), expected.reference(row));
    ASSERT_EQ(field(scanned.scales[1], lane), expected.shift(row));
    for (std::size_t page = 0; page < list.pages().size(); ++page) {
      for (std::uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
        const kernels::Burst& quad = scanned.midpoints[page * kernels::kQuads + token / 4];
        const auto part = kernels::part_of<16>(quad, static_cast<int>(token % 4) * kRows + lane);
        ASSERT_EQ(static_cast<std::int16_t>(part.to_uint()), expected.at(row, page, token))
            << planes << " planes, row " << row << " page " << page << " token " << token;
      }
    }
  }
  for (const int count : {1, 3, 64, 100, 100000}) {
    Bursts thresholds(1);
    nearkv_threshold(scanned.midpoints.data(), scanned.visible.data(),
                     static_cast<int>(list.pages().size()), count, thresholds.data());
    for (std::size_t row = 0; row < kRows; ++row) {
      ASSERT_EQ(field(thresholds[0], static_cast<int>(row)),
                expected.threshold(row, static_cast<std::uint64_t>(count)))
          << "count " << count << " row " << row;
    }
  }
}

void expect_models(const ListShape& shape, std::uint64_t number) {
  SCOPED_TRACE(test::case_name(number));
  test::Random random = test::case_random(number);
  const ScanList list(shape, random);
  for (int planes = 1; planes <= NKV_KEY_PLANES; ++planes) {
    expect_midpoints(list, planes);
    if (testing::Test::HasFatalFailure()) return;
  }
  for (const std::uint32_t sixteenths : {1u, 64u, 255u}) {
    const int planes = 1 + static_cast<int>(random() % NKV_KEY_PLANES);
    expect_bounds(list, planes, sixteenths);
    if (testing::Test::HasFatalFailure()) return;
  }
}

TEST(PlaneTest, EveryDimension) {
  for (std::uint32_t dim = 16; dim <= 128; dim += 16) {
    expect_models({.head_dim = dim, .pages = 3}, dim);
    if (HasFatalFailure()) return;
  }
}

TEST(PlaneTest, EveryKindOfKeys) {
  std::uint64_t number = 1000;
  for (const Keys keys :
       {Keys::kNormal, Keys::kBiased, Keys::kAnyBits, Keys::kForged, Keys::kZero}) {
    for (const std::uint32_t dim : {64u, 128u}) {
      expect_models({.head_dim = dim, .pages = 4, .keys = keys}, ++number);
      if (HasFatalFailure()) return;
    }
  }
}

TEST(PlaneTest, WindowsAndSinks) {
  expect_models(
      {.head_dim = 96, .pages = 6, .visibility = {.tokens = 333, .window = 70, .sinks = 5}}, 2000);
}

}  // namespace
}  // namespace nearkv::hls_test
