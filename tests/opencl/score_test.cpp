// The kernel `score` against the model's exact scores.
#include "hls/scan_pages.hpp"
#include "kernels.hpp"
#include "opencl/scores.hpp"

namespace nearkv::opencl_test {
namespace {

using hls_test::Keys;
using hls_test::ListShape;
using hls_test::ScanList;

class ScoreTest : public KernelsTest {
 protected:
  void expect_models(const ListShape& shape, std::uint64_t number) {
    SCOPED_TRACE(test::case_name(number));
    test::Random random = test::case_random(number);
    const ScanList list(shape, random);
    const std::size_t rows = list.query().rows();
    const cl::Buffer query = opencl::upload_query(*runtime_, list.query());
    for (std::size_t first = 0; first < list.pages().size();) {
      const opencl::PageRun run = opencl::run_from(list.pages(), first);
      const opencl::PackedRows keys = opencl::pack_keys(*runtime_, list.pages(), run);
      ASSERT_EQ(keys.tokens, run.size() * NKV_PAGE_TOKENS);
      const auto scores = downloaded<std::int64_t>(
          opencl::scores_of(*runtime_, keys, query, rows, list.key_exponent()), keys.tokens * rows);
      for (std::size_t i = 0; i < scores.size(); ++i) {
        const std::size_t token = i / rows;
        ASSERT_EQ(scores[i], list.score(i % rows, first + token / NKV_PAGE_TOKENS,
                                        static_cast<std::uint32_t>(token % NKV_PAGE_TOKENS)))
            << "token " << token << " of the run from page " << first << ", row " << i % rows;
      }
      first = run.end;
    }
  }
};

TEST_F(ScoreTest, EveryDimension) {
  for (std::uint32_t dim = 16; dim <= 128; dim += 16) {
    expect_models({.head_dim = dim, .pages = 3}, dim);
    if (HasFatalFailure()) return;
  }
}

TEST_F(ScoreTest, EveryKindOfKeys) {
  std::uint64_t number = 1000;
  for (const Keys keys : {Keys::kNormal, Keys::kBiased, Keys::kAnyBits, Keys::kZero}) {
    expect_models({.head_dim = 128, .pages = 4, .keys = keys}, ++number);
    if (HasFatalFailure()) return;
  }
}

TEST_F(ScoreTest, ListsOfMorePagesThanAreWorkedOnAtOnce) {
  expect_models({.head_dim = 16, .pages = 2 * opencl::kMostPages + 3}, 3000);
}

}  // namespace
}  // namespace nearkv::opencl_test
