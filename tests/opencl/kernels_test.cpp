// The kernels that no command of ocl: runs yet, against the model and the host library; and what
// the runtime says when something is missing or fails. On the first OpenCL device there is.
#include <gtest/gtest.h>

#include <cstdlib>

#include "blocks.hpp"
#include "midpoints.hpp"
#include "opencl/commands.hpp"
#include "opencl/runtime.hpp"
#include "plain_sections.hpp"
#include "scan/scan_pages.hpp"

namespace nearkv::opencl_test {
namespace {

using opencl::Runtime;
using rtl_test::Keys;
using rtl_test::ListShape;
using rtl_test::ScanList;

class KernelsTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string reason;
    runtime_ = Runtime::open(0, &reason);
    if (reason.starts_with("no OpenCL device")) GTEST_SKIP() << "skipped: " << reason;
    ASSERT_NE(runtime_, nullptr) << reason;
  }

  void TearDown() override {
    if (runtime_ != nullptr) {
      EXPECT_EQ(runtime_->take_error(), CL_SUCCESS);
    }
  }

  void expect_midpoints(const ScanList& list, int planes) {
    const model::ListedPages& pages = list.pages();
    std::vector<std::byte> digests;
    std::vector<std::byte> bits;
    std::vector<std::int32_t> steps;
    std::vector<std::uint64_t> visible;
    for (const model::ListedPage& listed : pages) {
      const auto digest = listed.page.array(NKV_PAGE_ARRAY_K_DIGEST);
      digests.insert(digests.end(), digest.begin(), digest.end());
      steps.push_back(listed.page.header().k_step_exponent);
      visible.push_back(listed.visible);
      for (int plane = 0; plane < planes; ++plane) {
        const auto of_plane =
            listed.page.array(static_cast<nkv_page_array>(NKV_PAGE_ARRAY_K_PLANE0 + plane));
        bits.insert(bits.end(), of_plane.begin(), of_plane.end());
      }
    }
    Runtime& runtime = *runtime_;
    const std::size_t rows = list.query().rows();
    const auto channels = static_cast<cl_uint>(list.head_dim());
    const cl::Buffer weights =
        runtime.allocate(pages.size() * rows * channels * sizeof(std::int32_t));
    const cl::Buffer sums = runtime.allocate(pages.size() * rows * 5 * sizeof(std::int64_t));
    std::vector<std::int16_t> found(pages.size() * NKV_PAGE_TOKENS * rows);
    const cl::Buffer midpoints = runtime.allocate(found.size() * sizeof(std::int16_t));
    runtime.run("fold", cl::NDRange(pages.size(), rows), runtime.upload<std::byte>(digests),
                runtime.upload<std::int32_t>(steps), opencl::upload_query(runtime, list.query()),
                channels, cl_int{list.key_exponent()}, weights, sums);
    runtime.run("midpoints", cl::NDRange(pages.size() * NKV_PAGE_TOKENS, rows),
                runtime.upload<std::byte>(bits), static_cast<cl_uint>(planes), channels, weights,
                sums, runtime.upload<std::uint64_t>(visible), midpoints);
    runtime.download<std::int16_t>(midpoints, found);
    const model::Midpoints expected(pages, list.query(), list.key_exponent(), planes);
    for (std::size_t i = 0; i < found.size(); ++i) {
      const std::size_t token = i / rows;
      ASSERT_EQ(found[i], expected.at(i % rows, token / NKV_PAGE_TOKENS,
                                      static_cast<std::uint32_t>(token % NKV_PAGE_TOKENS)))
          << planes << " planes, row " << i % rows << " token " << token;
    }
  }

  void expect_models(const ListShape& shape, std::uint64_t number) {
    SCOPED_TRACE(test::case_name(number));
    test::Random random = test::case_random(number);
    const ScanList list(shape, random);
    for (int planes = 0; planes <= NKV_KEY_PLANES; ++planes) {
      expect_midpoints(list, planes);
      if (HasFatalFailure()) return;
    }
  }

  std::unique_ptr<Runtime> runtime_;
};

TEST_F(KernelsTest, MidpointsOfEveryDimension) {
  for (std::uint32_t dim = 16; dim <= 128; dim += 16) {
    expect_models({.head_dim = dim, .pages = 3}, dim);
    if (HasFatalFailure()) return;
  }
}

TEST_F(KernelsTest, MidpointsOfEveryKindOfKeys) {
  std::uint64_t number = 1000;
  for (const Keys keys :
       {Keys::kNormal, Keys::kBiased, Keys::kAnyBits, Keys::kForged, Keys::kZero}) {
    expect_models({.head_dim = 128, .pages = 4, .keys = keys}, ++number);
    if (HasFatalFailure()) return;
  }
  expect_models(
      {.head_dim = 96, .pages = 6, .visibility = {.tokens = 333, .window = 70, .sinks = 5}}, 2000);
}

TEST_F(KernelsTest, ExponentDeltaOfEveryDimensionAndDistribution) {
  std::uint32_t seed = 0;
  for (const test::Distribution distribution : test::kDistributions) {
    for (const std::size_t dim : test::kDims) {
      SCOPED_TRACE(testing::Message() << test::name(distribution) << ", " << dim);
      const BlockShape shape{.tensor = Tensor::kKeys,
                             .dtype = RowDtype::kBf16,
                             .dim = static_cast<std::uint16_t>(dim)};
      const test::Words words = test::make_block(distribution, dim, ++seed);
      Runtime& runtime = *runtime_;
      const cl::Buffer references = runtime.allocate(dim);
      const cl::Buffer planes = runtime.allocate(16 * 8 * dim);
      runtime.run("exponent_delta_encode", cl::NDRange(dim, 1),
                  runtime.upload<std::uint16_t>(words), references, planes);
      std::vector<std::byte> sections(dim + 16 * 8 * dim);
      runtime.download<std::byte>(references, std::span(sections).first(dim));
      runtime.download<std::byte>(planes, std::span(sections).subspan(dim));
      ASSERT_EQ(sections, test::plain_sections(shape, words));

      const cl::Buffer rows = runtime.allocate(words.size() * sizeof(std::uint16_t));
      runtime.run("exponent_delta_decode", cl::NDRange(dim, 1), references, planes, rows);
      test::Words decoded(words.size());
      runtime.download<std::uint16_t>(rows, decoded);
      ASSERT_EQ(decoded, words);
    }
  }
}

TEST_F(KernelsTest, WhatFailsIsToldOnceAndForgotten) {
  Runtime& runtime = *runtime_;
  runtime.run("no_such_kernel", cl::NDRange(1), cl_int{0});
  std::vector<std::int32_t> untouched{7};
  runtime.download<std::int32_t>(runtime.allocate(4), untouched);
  EXPECT_EQ(untouched[0], 7);
  EXPECT_EQ(runtime.take_error(), CL_INVALID_KERNEL_NAME);
  EXPECT_EQ(runtime.take_error(), CL_SUCCESS);
  EXPECT_NE(runtime.allocate(4)(), nullptr);
}

TEST_F(KernelsTest, TheQueueTellsWhatKernelsTook) {
  Runtime& runtime = *runtime_;
  test::Random random = test::case_random(1);
  expect_midpoints(ScanList({.head_dim = 64, .pages = 2}, random), 2);
  EXPECT_EQ(runtime.times().at("fold").runs, 1U);
  EXPECT_GT(runtime.times().at("midpoints").device_ns, 0U);
}

TEST(RuntimeTest, NoSuchDevice) {
  std::string reason;
  EXPECT_EQ(Runtime::open(99, &reason), nullptr);
  EXPECT_NE(reason.find("no OpenCL device"), std::string::npos) << reason;
}

// Run by itself, with the loader pointed at an empty folder.
TEST(RuntimeTest, NoDriver) {
  if (std::getenv("OCL_ICD_VENDORS") == nullptr) return;
  std::string reason;
  EXPECT_EQ(Runtime::open(0, &reason), nullptr);
  EXPECT_NE(reason.find("pocl-opencl-icd"), std::string::npos) << reason;
}

}  // namespace
}  // namespace nearkv::opencl_test
