// exponent_delta_encode and exponent_delta_decode against the host library's PLANES_LZ4 with a
// compressor that never does.
#include "blocks.hpp"
#include "kernels.hpp"
#include "plain_sections.hpp"

namespace nearkv::opencl_test {
namespace {

using ExponentDeltaTest = KernelsTest;

TEST_F(ExponentDeltaTest, EveryDimensionAndDistribution) {
  std::uint32_t seed = 0;
  for (const test::Distribution distribution : test::kDistributions) {
    for (const std::size_t dim : test::kDims) {
      SCOPED_TRACE(testing::Message() << test::name(distribution) << ", " << dim);
      const BlockShape shape{.tensor = Tensor::kKeys,
                             .dtype = RowDtype::kBf16,
                             .dim = static_cast<std::uint16_t>(dim)};
      const test::Words words = test::make_block(distribution, dim, ++seed);
      const cl::Buffer references = runtime_->allocate(dim);
      const cl::Buffer planes = runtime_->allocate(16 * 8 * dim);
      runtime_->run("exponent_delta_encode", cl::NDRange(dim, 1),
                    runtime_->upload<std::uint16_t>(words), references, planes);
      auto sections = downloaded<std::byte>(references, dim);
      const auto of_planes = downloaded<std::byte>(planes, 16 * 8 * dim);
      sections.insert(sections.end(), of_planes.begin(), of_planes.end());
      ASSERT_EQ(sections, test::plain_sections(shape, words));

      const cl::Buffer rows = runtime_->allocate(words.size() * sizeof(std::uint16_t));
      runtime_->run("exponent_delta_decode", cl::NDRange(dim, 1), references, planes, rows);
      ASSERT_EQ(downloaded<std::uint16_t>(rows, words.size()), words);
    }
  }
}

}  // namespace
}  // namespace nearkv::opencl_test
