// nearkv_threshold against a count of its own: midpoints anywhere, in few bins, or all in one, as
// the RTL's is tested.
#include "kernels/threshold.hpp"

#include <gtest/gtest.h>

#include <array>
#include <vector>

#include "kernels/plane_score.hpp"
#include "support/seed.hpp"

namespace nearkv::hls_test {
namespace {

using kernels::kQuads;
using kernels::kQuadTokens;
using kernels::kRows;
using Bins = std::vector<std::array<unsigned, NKV_HISTOGRAM_BINS>>;

int random_midpoint(unsigned row, unsigned list, test::Random& random) {
  switch ((row + list) % 4) {
    case 0:
      return static_cast<std::int16_t>(random());
    case 1:
      return static_cast<int>(random() % 64) + static_cast<int>(list * 40) - 20000;
    case 2:
      return random() % 5 == 0 ? -32767 : 32767;
    default:
      return -32767;
  }
}

unsigned expected(const Bins& bins, std::size_t row, unsigned count) {
  unsigned reached = 0;
  for (unsigned bin = NKV_HISTOGRAM_BINS - 1; bin > 0; --bin) {
    reached += bins[row][bin];
    if (reached >= count) return bin;
  }
  return 0;
}

TEST(ThresholdTest, CountsEachListAlone) {
  for (unsigned list = 0; list < 30; ++list) {
    SCOPED_TRACE(test::case_name(list));
    test::Random random = test::case_random(list);
    const unsigned pages = list % 10 == 0 ? 128 : test::pick(random, 1, 20);
    std::vector<kernels::Burst> midpoints(std::size_t{pages} * kQuads);
    std::vector<std::uint64_t> visible(pages);
    Bins bins(kRows);
    for (std::uint64_t& mask : visible) mask = random() | random();
    for (unsigned token = 0; token < pages * NKV_PAGE_TOKENS; ++token) {
      const bool is_visible = (visible[token / 64] >> token % 64 & 1) != 0;
      for (unsigned row = 0; row < kRows; ++row) {
        const int midpoint = random_midpoint(row, list, random);
        kernels::set_part<16>(midpoints[token / kQuadTokens],
                              static_cast<int>(token % kQuadTokens * kRows + row),
                              ap_uint<16>(midpoint));
        if (is_visible) ++bins[row][static_cast<unsigned>(midpoint + 32768) >> 4];
      }
    }
    for (const unsigned count : {1U, 2U, test::pick(random, 1, 8192), 8192U}) {
      std::vector<kernels::Burst> thresholds(1);
      nearkv_threshold(midpoints.data(), visible.data(), static_cast<int>(pages),
                       static_cast<int>(count), thresholds.data());
      for (unsigned row = 0; row < kRows; ++row) {
        const auto found = kernels::part_of<64>(thresholds[0], static_cast<int>(row));
        ASSERT_EQ(found.to_uint(), expected(bins, row, count)) << "row " << row << " n " << count;
      }
    }
  }
}

}  // namespace
}  // namespace nearkv::hls_test
