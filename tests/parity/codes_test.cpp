// ATTEND and TOPK by codes: the same decisions, rounds, ids, flags, bounds and bytes on both
// devices, and O within what rounding a quotient to binary32 leaves.
#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "sequences.hpp"
#include "support/elements.hpp"
#include "support/environment.hpp"
#include "support/offers.hpp"

namespace nearkv::test {
namespace {

constexpr double kRounding = 1e-5;  // Of the largest |O| of a row: integers are equal.
constexpr float kLogError = 5e-5F;  // The model's logarithm is a table with lines between.

/// Lists of every shape that has codes.
class CodeParityTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!offers_feature(pair_.subject().device(), NKV_FEATURE_CODES)) {
      GTEST_SKIP() << has_no("codes");
    }
  }

  ListOnBoth coded_list(Random& random) {
    ListShape shape = random_shape(random, true);
    shape.codes = true;
    constexpr std::array kContents = {Content::kTopics, Content::kTopics,   Content::kTopics,
                                      Content::kNormal, Content::kSpecials, Content::kZeros,
                                      Content::kEqual,  Content::kClose};
    const Content content = kContents[random() % kContents.size()];
    const std::uint32_t pages = random() % 6 == 0 ? 40 : pick(random, 1, 14);
    ListOnBoth list = append_to_both(pair_, shape, pages, content, random);
    if (random() % 4 == 0 && list.completion.status == NKV_STATUS_OK) mix(&list, content, random);
    return list;
  }

  /// Puts pages without codes, or with other gains, in the place of some.
  void mix(ListOnBoth* list, Content content, Random& random) {
    ListShape shape = list->shape;
    shape.codes = random() % 3 == 0;
    const ListOnBoth other = append_to_both(pair_, shape, list->pages(), content, random);
    if (other.completion.status != NKV_STATUS_OK) return;
    constexpr std::array<unsigned, 4> kShares = {1, 4, 16, 40};
    const unsigned share = kShares[random() % kShares.size()];
    std::vector<nkv_page_entry> entries;
    for (std::uint32_t page = 0; page < list->pages(); ++page) {
      const std::uint64_t from = random() % 48 < share ? other.page_list : list->page_list;
      entries.push_back(pair_.model().at<nkv_page_entry>(from)[page]);
    }
    list->page_list = pair_.store(std::span<const nkv_page_entry>(entries));
  }

  float random_scale(const ListOnBoth& list, Random& random) {
    constexpr std::array kSharpness = {1.F, 1.F, 1.F, .1F, 3.F, 3.F, 10.F, 60.F, 4000.F};
    const float sharpness = kSharpness[random() % kSharpness.size()];
    const float sign = random() % 8 == 0 ? -1.F : 1.F;
    return sign * sharpness / std::sqrt(static_cast<float>(list.shape.head_dim));
  }

  Rows some_queries(const ListOnBoth& list, std::uint8_t dtype, std::size_t group, Random& random) {
    Rows queries = random_queries(list, dtype, group, random);
    if (random() % 8 == 0) {
      const auto row = random() % group;
      std::fill_n(queries.patterns.begin() + static_cast<std::ptrdiff_t>(row * queries.dim),
                  queries.dim, 0U);
    }
    return queries;
  }

  nkv_attend_command attention(const ListOnBoth& list, std::uint8_t mode, Random& random) {
    nkv_attend_command command{};
    command.opcode = NKV_OPCODE_ATTEND;
    command.flags = random() % 4 == 0 ? NKV_ATTEND_FLAG_LSE_BASE2 : 0;
    command.head_dim = list.shape.head_dim;
    command.value_dim = list.shape.value_dim;
    command.tokens = random() % 3 != 0 ? list.tokens : pick(random, 0, list.tokens);
    command.window = random() % 4 == 0 ? pick(random, 1, list.tokens) : 0;
    command.sinks = static_cast<std::uint8_t>(pick(random, 0, 80));
    command.page_list = list.page_list;
    command.scale = random_scale(list, random);
    command.soft_cap = random() % 16 == 0 ? 5.0F : 0.0F;
    constexpr std::array<std::uint16_t, 5> kCounts = {0, 1, 8, 64, 2048};
    command.top_k = kCounts[random() % kCounts.size()];
    command.mode = mode;
    command.group =
        static_cast<std::uint8_t>(random() % 3 == 0 ? pick(random, 1, 16) : pick(random, 1, 4));
    constexpr std::array<std::uint8_t, 3> kTypes = {NKV_DTYPE_BF16, NKV_DTYPE_FP16, NKV_DTYPE_FP32};
    command.query_dtype = kTypes[random() % kTypes.size()];
    constexpr std::array<std::uint8_t, 6> kSixteenths = {0, 0, 24, 16, 64, 255};
    command.z = kSixteenths[random() % kSixteenths.size()];
    constexpr std::array kErrors = {.1F, .05F, .2F, .02F, 1.F, .5F, .01F, .003F, 1e-4F, 1e-30F};
    command.error = kErrors[random() % kErrors.size()];
    constexpr std::array<std::uint8_t, 8> kCaps = {0, 0, 0, 0, 255, 64, 16, 1};
    command.byte_cap = kCaps[random() % kCaps.size()];
    command.query =
        store_rows(pair_, some_queries(list, command.query_dtype, command.group, random));
    command.result = pair_.allocate(std::uint64_t{command.group} * command.value_dim * 4 +
                                    4 * NKV_BURST_BYTES + 8ULL * command.group);
    return command;
  }

  /// Runs an ATTEND on both.
  void expect_same_attention(const nkv_attend_command& command) {
    const DevicePair::Completions done = pair_.run(command);
    ASSERT_EQ(describe(done.subject), describe(done.model));
    if (done.model.status != NKV_STATUS_OK) return;
    count(done.model);
    const AttendOutcome subject = attend_outcome(&pair_.subject(), command, done.subject);
    const AttendOutcome model = attend_outcome(&pair_.model(), command, done.model);
    EXPECT_EQ(subject.bound, model.bound);
    const bool is_dense =
        (done.model.flags & NKV_COMPLETION_FLAG_DENSE_FALLBACK) != 0 || command.soft_cap != 0;
    for (std::size_t row = 0; row < command.group && !is_dense; ++row) {
      const std::span<const float> exact = model.row(row, command.value_dim);
      EXPECT_LT(max_norm_error(subject.row(row, command.value_dim),
                               std::vector<double>(exact.begin(), exact.end())),
                kRounding);
      if (std::isinf(model.lse[row])) {
        EXPECT_EQ(subject.lse[row], model.lse[row]);
      } else {
        EXPECT_NEAR(subject.lse[row], model.lse[row], kLogError * (1 + std::abs(model.lse[row])));
      }
    }
  }

  void count(const nkv_completion& completion) {
    ++commands_;
    dense_ += (completion.flags & NKV_COMPLETION_FLAG_DENSE_FALLBACK) != 0 ? 1 : 0;
    capped_ += (completion.flags & NKV_COMPLETION_FLAG_CAPPED) != 0 ? 1 : 0;
    ++rounds_[std::min<std::size_t>(completion.rounds, rounds_.size() - 1)];
  }

  DevicePair pair_{GetParam()};
  unsigned commands_ = 0;
  unsigned dense_ = 0;
  unsigned capped_ = 0;
  std::array<unsigned, 8> rounds_{};
};

std::uint64_t cases(std::uint64_t usual) { return by_size(usual, 20 * usual); }

TEST_P(CodeParityTest, BoundedDecidesTheSame) {
  for (std::uint64_t number = 0; number < cases(250) && !HasFailure(); ++number) {
    Random random = case_random(number);
    pair_.clear();
    const ListOnBoth list = coded_list(random);
    if (list.completion.status != NKV_STATUS_OK) continue;
    for (unsigned again = 0; again < 4 && !HasFailure(); ++again) {
      const nkv_attend_command command = attention(list, NKV_ATTEND_MODE_BOUNDED, random);
      if (command.soft_cap != 0) continue;  // Answered otherwise.
      SCOPED_TRACE(case_name(number) + "/" + std::to_string(again) + ": " + list.shape.name() +
                   ", tokens " + std::to_string(command.tokens) + " of " +
                   std::to_string(list.tokens) + ", group " + std::to_string(command.group) +
                   ", error " + std::to_string(command.error) + ", scale " +
                   std::to_string(command.scale) + ", cap " + std::to_string(command.byte_cap));
      expect_same_attention(command);
    }
  }
  EXPECT_GT(commands_, cases(500));
  EXPECT_GT(commands_ - dense_, commands_ / 5);
  EXPECT_GT(capped_, commands_ / 100);
  for (std::size_t rounds = 0; rounds <= 5; ++rounds) {
    EXPECT_GT(rounds_[rounds], 0U) << rounds << " rounds";
    std::printf("%zu rounds: %u\n", rounds, rounds_[rounds]);
  }
  std::printf("commands %u, dense %u, capped %u\n", commands_, dense_, capped_);
}

TEST_P(CodeParityTest, TailSumsTheSame) {
  for (std::uint64_t number = 1000; number < 1000 + cases(150) && !HasFailure(); ++number) {
    Random random = case_random(number);
    pair_.clear();
    const ListOnBoth list = coded_list(random);
    if (list.completion.status != NKV_STATUS_OK) continue;
    for (unsigned again = 0; again < 3 && !HasFailure(); ++again) {
      const nkv_attend_command command = attention(list, NKV_ATTEND_MODE_TAIL, random);
      if (command.soft_cap != 0) continue;
      SCOPED_TRACE(case_name(number) + "/" + std::to_string(again) + ": " + list.shape.name());
      expect_same_attention(command);
    }
  }
  EXPECT_GT(commands_ - dense_, commands_ / 4);
}

TEST_P(CodeParityTest, StatisticalFindsTheSame) {
  for (std::uint64_t number = 2000; number < 2000 + cases(150) && !HasFailure(); ++number) {
    Random random = case_random(number);
    pair_.clear();
    const ListOnBoth list = coded_list(random);
    if (list.completion.status != NKV_STATUS_OK) continue;
    for (unsigned again = 0; again < 3 && !HasFailure(); ++again) {
      nkv_topk_command command{};
      command.opcode = NKV_OPCODE_TOPK;
      command.head_dim = list.shape.head_dim;
      command.tokens = random() % 3 != 0 ? list.tokens : pick(random, 0, list.tokens);
      command.window = random() % 4 == 0 ? pick(random, 1, list.tokens) : 0;
      command.sinks = static_cast<std::uint8_t>(pick(random, 0, 80));
      command.page_list = list.page_list;
      command.scale = random_scale(list, random);
      constexpr std::array<std::uint16_t, 5> kCounts = {1, 3, 16, 64, 1000};
      command.top_k = kCounts[random() % kCounts.size()];
      command.mode = NKV_SELECT_STATISTICAL;
      command.group = static_cast<std::uint8_t>(pick(random, 1, 8));
      command.query_dtype = NKV_DTYPE_BF16;
      constexpr std::array<std::uint8_t, 5> kSixteenths = {0, 0, 16, 48, 255};
      command.z = kSixteenths[random() % kSixteenths.size()];
      command.query =
          store_rows(pair_, some_queries(list, command.query_dtype, command.group, random));
      const std::uint64_t results = std::uint64_t{command.group} * command.top_k * 4;
      command.result = pair_.allocate(2 * results + 4 * NKV_BURST_BYTES + 4ULL * command.group);
      SCOPED_TRACE(case_name(number) + "/" + std::to_string(again) + ": " + list.shape.name() +
                   ", tokens " + std::to_string(command.tokens) + ", top " +
                   std::to_string(command.top_k) + ", scale " + std::to_string(command.scale));
      pair_.expect_same(command);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, CodeParityTest, testing::ValuesIn(subject_uris()), device_name);

}  // namespace
}  // namespace nearkv::test
