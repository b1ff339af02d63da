// nearkv_exponent_delta_* against the host library's PLANES_LZ4 with a compressor that never does.
#include "kernels/exponent_delta.hpp"

#include <gtest/gtest.h>

#include "blocks.hpp"
#include "kernel_list.hpp"
#include "plain_sections.hpp"

namespace nearkv::hls_test {
namespace {

constexpr std::size_t kPlanes = kernels::kElementBits;

void expect_hosts(const BlockShape& shape, const test::Words& words) {
  const int channels = shape.dim;
  const Bursts rows = to_bursts(std::as_bytes(std::span(words)));
  Bursts references(2);
  Bursts planes(kPlanes * shape.dim / 8);
  nearkv_exponent_delta_encode(rows.data(), channels, references.data(), planes.data());
  auto sections = to_bytes(references, shape.dim);
  const auto of_planes = to_bytes(planes, kPlanes * 8 * shape.dim);
  sections.insert(sections.end(), of_planes.begin(), of_planes.end());
  ASSERT_EQ(sections, test::plain_sections(shape, words));

  Bursts decoded(rows.size());
  nearkv_exponent_delta_decode(references.data(), planes.data(), channels, decoded.data());
  ASSERT_EQ(to_bytes(decoded, 2 * words.size()), to_bytes(rows, 2 * words.size()));
}

TEST(ExponentDeltaTest, EveryDimensionAndDistribution) {
  std::uint32_t seed = 0;
  for (const test::Distribution distribution : test::kDistributions) {
    for (std::uint16_t dim = 16; dim <= 128; dim = static_cast<std::uint16_t>(dim + 16)) {
      SCOPED_TRACE(testing::Message() << test::name(distribution) << ", " << dim);
      expect_hosts({.tensor = Tensor::kKeys, .dtype = RowDtype::kBf16, .dim = dim},
                   test::make_block(distribution, dim, ++seed));
      if (HasFatalFailure()) return;
    }
  }
}

}  // namespace
}  // namespace nearkv::hls_test
