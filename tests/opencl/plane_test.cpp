// The plane stage's kernels against the model's.
#include <array>
#include <limits>

#include "hls/scan_pages.hpp"
#include "kernels.hpp"
#include "opencl/device_steps.hpp"
#include "opencl/scores.hpp"
#include "plane_steps.hpp"

namespace nearkv::opencl_test {
namespace {

using hls_test::Keys;
using hls_test::ListShape;
using hls_test::ScanList;

constexpr std::size_t kSeeds = 40;

class PlaneTest : public KernelsTest {
 protected:
  void expect_radii(const ScanList& list, int planes, std::uint32_t sixteenths);
  void expect_midpoints(opencl::DevicePlaneSteps& steps, const model::Midpoints& expected,
                        const ScanList& list);
  void expect_thresholds(opencl::DevicePlaneSteps& steps, model::PlaneSteps& expected_steps,
                         const model::Midpoints& expected, const ScanList& list);
  void expect_steps(const ScanList& list, int planes, std::uint32_t sixteenths);
  void expect_models(const ListShape& shape, std::uint64_t number);

  std::uint64_t kept_ = 0;     // Tokens that were alive still,
  std::uint64_t dropped_ = 0;  // and that were no more.
};

void PlaneTest::expect_radii(const ScanList& list, int planes, std::uint32_t sixteenths) {
  const model::ListedPages& pages = list.pages();
  const std::size_t rows = list.query().rows();
  std::vector<std::byte> digests;
  std::vector<std::int32_t> steps;
  std::vector<std::uint32_t> places;
  for (const model::ListedPage& listed : pages) {
    const auto digest = listed.page.array(NKV_PAGE_ARRAY_K_DIGEST);
    digests.insert(digests.end(), digest.begin(), digest.end());
    steps.push_back(listed.page.header().k_step_exponent);
    places.push_back(static_cast<std::uint32_t>(places.size()));
  }
  const auto count = static_cast<cl_uint>(pages.size());
  const cl::NDRange range(opencl::in_groups(count), rows);
  const cl::Buffer weights = runtime_->allocate(count * rows * list.head_dim() * 4);
  const cl::Buffer of_sums = runtime_->allocate(count * rows * 5 * sizeof(std::int64_t));
  const cl::Buffer of_radii = runtime_->allocate(count * rows * sizeof(std::int64_t));
  runtime_->run("fold", range, runtime_->upload<std::byte>(digests),
                runtime_->upload<std::int32_t>(steps), runtime_->upload<std::uint32_t>(places),
                count, opencl::upload_query(*runtime_, list.query()), cl_uint{list.head_dim()},
                cl_int{list.key_exponent()}, weights, of_sums);
  runtime_->run("digest_bound", range, of_sums, count, cl_int{planes}, cl_uint{sixteenths},
                of_radii);
  const auto sums = downloaded<std::int64_t>(of_sums, count * rows * 5);
  const auto radii = downloaded<std::int64_t>(of_radii, count * rows);
  for (std::size_t at = 0; at < count * rows; ++at) {
    SCOPED_TRACE(testing::Message() << "page " << at / rows << " row " << at % rows);
    const auto cells = model::page_cells(pages[at / rows].page);
    const model::PlaneWeights expected(list.query().row(at % rows), cells, list.key_exponent());
    ASSERT_EQ(sums[at * 5], expected.constant());
    ASSERT_EQ(sums[at * 5 + 1], expected.weight_sum());
    ASSERT_EQ(sums[at * 5 + 3], expected.squares());
    ASSERT_EQ(sums[at * 5 + 4], expected.remainder());
    const model::RadiusTerms terms{.weight_sum = expected.weight_sum(),
                                   .squares = expected.squares(),
                                   .remainder = expected.remainder()};
    ASSERT_EQ(radii[at], model::radius(terms, planes, sixteenths))
        << planes << " planes, z " << sixteenths;
  }
}

void PlaneTest::expect_midpoints(opencl::DevicePlaneSteps& steps, const model::Midpoints& expected,
                                 const ScanList& list) {
  const std::size_t rows = list.query().rows();
  const auto found =
      downloaded<std::int16_t>(steps.midpoints(), list.pages().size() * NKV_PAGE_TOKENS * rows);
  for (std::size_t i = 0; i < found.size(); ++i) {
    const std::size_t token = i / rows;
    ASSERT_EQ(found[i], expected.at(i % rows, token / NKV_PAGE_TOKENS,
                                    static_cast<std::uint32_t>(token % NKV_PAGE_TOKENS)))
        << "row " << i % rows << " token " << token;
  }
}

void PlaneTest::expect_thresholds(opencl::DevicePlaneSteps& steps,
                                  model::PlaneSteps& expected_steps,
                                  const model::Midpoints& expected, const ScanList& list) {
  const std::size_t rows = list.query().rows();
  for (const std::uint64_t count : {1U, 3U, 64U, 100U, 100000U}) {
    SCOPED_TRACE(testing::Message() << "count " << count);
    const auto found = downloaded<std::int32_t>(steps.thresholds(count), rows);
    for (std::size_t row = 0; row < rows; ++row) {
      ASSERT_EQ(found[row], expected.threshold(row, count)) << "row " << row;
    }
    ASSERT_EQ(steps.best(count), expected_steps.best(count));
  }
}

// A search as TOPK makes it, by both ways at once.
void PlaneTest::expect_steps(const ScanList& list, int planes, std::uint32_t sixteenths) {
  SCOPED_TRACE(testing::Message() << planes << " planes scanned");
  opencl::DevicePlaneSteps steps(*runtime_, list.query(), list.key_exponent());
  model::ModelPlaneSteps expected_steps(list.query(), list.key_exponent());
  steps.scan(list.pages(), planes);
  expected_steps.scan(list.pages(), planes);
  model::Midpoints expected(list.pages(), list.query(), list.key_exponent(), planes);
  expect_midpoints(steps, expected, list);
  expect_thresholds(steps, expected_steps, expected, list);
  if (HasFatalFailure()) return;

  const model::TokenSet seeds = expected_steps.best(kSeeds);
  const std::vector<std::int64_t> scores = steps.scores(seeds);
  ASSERT_EQ(scores, expected_steps.scores(seeds));
  // The best score that is known of each row, or of one row none. The last row's query is zero: all
  // of its scores tie, so it has one that no token reaches.
  const std::size_t rows = list.query().rows();
  std::vector<std::int64_t> taus(rows, std::numeric_limits<std::int64_t>::min());
  for (std::size_t i = 0; i < scores.size(); ++i) {
    taus[i % rows] = std::max(taus[i % rows], scores[i]);
  }
  taus[rows - 1] = std::numeric_limits<std::int64_t>::max();
  if (planes == 1) taus[0] = std::numeric_limits<std::int64_t>::min();

  model::TokenSet alive = list.pages().visible();
  for (int plane = planes; plane <= NKV_KEY_PLANES; ++plane) {
    SCOPED_TRACE(testing::Message() << "plane " << plane);
    if (plane != planes) {
      steps.sharpen(alive, plane);
      expected_steps.sharpen(alive, plane);
      for (std::size_t page = 0; page < alive.size(); ++page) {
        const auto weights = expected.weights_of(page);
        for (std::uint32_t token = 0; token < NKV_PAGE_TOKENS; ++token) {
          if (!model::has_token(alive[page], token)) continue;
          expected.sharpen(page, token, plane, weights);
        }
      }
      expect_midpoints(steps, expected, list);
    }
    const model::TokenSet kept = steps.alive(alive, plane, sixteenths, taus);
    ASSERT_EQ(kept, expected_steps.alive(alive, plane, sixteenths, taus));
    kept_ += model::count_tokens(kept);
    dropped_ += model::count_tokens(alive) - model::count_tokens(kept);
    alive = kept;
  }
  ASSERT_EQ(steps.scores(alive), expected_steps.scores(alive));
}

void PlaneTest::expect_models(const ListShape& shape, std::uint64_t number) {
  SCOPED_TRACE(test::case_name(number));
  test::Random random = test::case_random(number);
  const ScanList list(shape, random);
  for (int planes = 1; planes <= NKV_KEY_PLANES; ++planes) {
    expect_steps(list, planes, test::pick(random, 1, 255));
    if (HasFatalFailure()) return;
  }
  for (const std::uint32_t sixteenths : {1U, 64U, 255U}) {
    expect_radii(list, static_cast<int>(test::pick(random, 1, NKV_KEY_PLANES)), sixteenths);
    if (HasFatalFailure()) return;
  }
}

TEST_F(PlaneTest, EveryDimension) {
  for (std::uint32_t dim = 16; dim <= 128; dim += 16) {
    expect_models({.head_dim = dim, .pages = 3}, dim);
    if (HasFatalFailure()) return;
  }
  EXPECT_GT(kept_, 0U);
  EXPECT_GT(dropped_, 0U);
}

TEST_F(PlaneTest, EveryKindOfKeys) {
  std::uint64_t number = 1000;
  for (const Keys keys :
       {Keys::kNormal, Keys::kBiased, Keys::kAnyBits, Keys::kForged, Keys::kZero}) {
    expect_models({.head_dim = 128, .pages = 4, .keys = keys}, ++number);
    if (HasFatalFailure()) return;
  }
}

TEST_F(PlaneTest, WindowsAndSinks) {
  expect_models(
      {.head_dim = 96, .pages = 6, .visibility = {.tokens = 333, .window = 70, .sinks = 5}}, 2000);
}

// More pages than are worked on at once.
TEST_F(PlaneTest, ListsOfManyPages) {
  test::Random random = test::case_random(3000);
  const ScanList list({.head_dim = 16, .pages = 2 * opencl::kMostPages + 3}, random);
  expect_steps(list, 2, 255);
}

}  // namespace
}  // namespace nearkv::opencl_test
