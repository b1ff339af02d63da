// ATTEND: O and LSE of both devices within the stated tolerance of double precision and of each
// other, and the same bytes read.
#include <algorithm>
#include <cmath>
#include <limits>

#include "sequences.hpp"
#include "support/elements.hpp"
#include "support/offers.hpp"

namespace nearkv::test {
namespace {

constexpr double kDenseError = 1.0 / 256;  // ARITHMETIC.md 10.

/// One ATTEND with all that is needed to compute it again.
struct Question {
  nkv_attend_command command{};
  Rows queries;

  [[nodiscard]] Attention answer(const ListOnBoth& list, std::size_t row) const {
    AttentionOptions options;
    options.scale = static_cast<double>(command.scale);
    options.soft_cap = static_cast<double>(command.soft_cap);
    options.tokens = command.tokens;
    options.window = command.window;
    options.sinks = command.sinks;
    const std::vector<double> numbers = numbers_of(queries);
    return reference_attention(list.numbers(command.tokens),
                               std::span(numbers).subspan(row * queries.dim, queries.dim), options);
  }
  [[nodiscard]] std::string name() const {
    return "mode " + std::to_string(command.mode) + ", tokens " + std::to_string(command.tokens) +
           ", window " + std::to_string(command.window) + ", sinks " +
           std::to_string(command.sinks) + ", group " + std::to_string(command.group) + ", top_k " +
           std::to_string(command.top_k) + ", soft cap " + std::to_string(command.soft_cap) +
           ", query dtype " + std::to_string(command.query_dtype);
  }
};

Question random_question(DevicePair& pair, const ListOnBoth& list, std::uint8_t mode,
                         Random& random) {
  Question question;
  nkv_attend_command& command = question.command;
  command.opcode = NKV_OPCODE_ATTEND;
  command.flags = random() % 4 == 0 ? NKV_ATTEND_FLAG_LSE_BASE2 : 0;
  command.head_dim = list.shape.head_dim;
  command.value_dim = list.shape.value_dim;
  command.tokens = random() % 3 == 0 ? list.tokens : pick(random, 0, list.tokens);
  command.window = random() % 3 == 0 ? pick(random, 1, list.tokens) : 0;
  command.sinks = static_cast<std::uint8_t>(pick(random, 0, 8));
  command.page_list = list.page_list;
  command.scale = 1.0F / std::sqrt(static_cast<float>(list.shape.head_dim));
  command.soft_cap = random() % 4 == 0 ? 5.0F : 0.0F;
  constexpr std::uint16_t kCounts[] = {0, 8, 64, 2048};
  command.top_k = kCounts[pick(random, 0, 3)];
  command.mode = mode;
  command.group = static_cast<std::uint8_t>(pick(random, 1, 16));
  constexpr std::uint8_t kTypes[] = {NKV_DTYPE_BF16, NKV_DTYPE_FP16, NKV_DTYPE_FP32};
  command.query_dtype = kTypes[pick(random, 0, 2)];
  command.z = 64;
  command.error = 0.1F;
  question.queries = random_queries(list, command.query_dtype, command.group, random);
  command.query = store_rows(pair, question.queries);
  command.result = pair.allocate(std::uint64_t{command.group} * command.value_dim * 4 +
                                 4 * NKV_BURST_BYTES + 8ULL * command.group);
  return question;
}

/// Results as both devices left them.
struct Answers {
  AttendOutcome subject;
  AttendOutcome model;
};

Answers ask(DevicePair& pair, const Question& question) {
  const DevicePair::Completions done = pair.run(question.command);
  return {attend_outcome(&pair.subject(), question.command, done.subject),
          attend_outcome(&pair.model(), question.command, done.model)};
}

/// A device that offers less answers enough itself to be compared.
void expect_own_answers(const DevicePair& pair) {
  EXPECT_LT(pair.not_offered(), 3 * pair.commands() / 4) << "of " << pair.commands();
}

double natural(const Question& question, float lse) {
  const bool base2 = (question.command.flags & NKV_ATTEND_FLAG_LSE_BASE2) != 0;
  return static_cast<double>(lse) * (base2 ? std::log(2.0) : 1.0);
}

/// LSE within 1e-3 relative to its size; infinite where it must be.
void expect_lse(double lse, double exact) {
  if (std::isinf(exact)) {
    EXPECT_EQ(lse, exact);
  } else {
    EXPECT_NEAR(lse, exact, 1e-3 * (1 + std::abs(exact)));
  }
}

ListOnBoth attendable_list(DevicePair& pair, std::uint64_t number, Random& random) {
  const ListShape shape = random_shape(random, true);
  // Values next to the type's end drown the others in 25 bits: specials serve keys and errors, and
  // have a test of their own.
  constexpr Content kContents[] = {Content::kNormal, Content::kZeros, Content::kEqual};
  const std::uint32_t pages = number % 10 == 0 ? 32 : pick(random, 1, 9);
  return append_to_both(pair, shape, pages, kContents[number % 3], random);
}

TEST_P(ParityTest, DenseAttentionIsWithinToleranceAndReadsTheSame) {
  DevicePair pair(GetParam());
  std::uint32_t done = 0;
  for (std::uint64_t number = 0; number < 200 && !HasFailure(); number += test_every()) {
    Random random = case_random(number);
    pair.clear();
    const ListOnBoth list = attendable_list(pair, number, random);
    SCOPED_TRACE(case_name(number) + ": " + list.shape.name());
    if (list.completion.status != NKV_STATUS_OK) continue;
    ++done;
    const Question question = random_question(pair, list, NKV_ATTEND_MODE_DENSE, random);
    SCOPED_TRACE(question.name());
    const Answers answers = ask(pair, question);
    EXPECT_EQ(describe(answers.subject.completion), describe(answers.model.completion));
    ASSERT_EQ(answers.subject.completion.status, NKV_STATUS_OK);
    const std::size_t dim = list.shape.value_dim;
    for (std::size_t row = 0; row < question.command.group; ++row) {
      const Attention exact = question.answer(list, row);
      const std::span<const float> model = answers.model.row(row, dim);
      EXPECT_LT(max_norm_error(answers.subject.row(row, dim), exact.output), kDenseError);
      EXPECT_LT(max_norm_error(model, exact.output), kDenseError);
      EXPECT_LT(max_norm_error(answers.subject.row(row, dim),
                               std::vector<double>(model.begin(), model.end())),
                kDenseError);
      expect_lse(natural(question, answers.subject.lse[row]), exact.lse);
      expect_lse(natural(question, answers.model.lse[row]), exact.lse);
      EXPECT_EQ(answers.subject.bound[row], 0.0F);
      EXPECT_EQ(answers.model.bound[row], 0.0F);
    }
  }
  EXPECT_GT(done, 100 / test_every());
  expect_own_answers(pair);
}

TEST_P(ParityTest, DenseAttentionLeavesOutWhatIsNotFinite) {
  DevicePair pair(GetParam());
  for (std::uint64_t number = 0; number < 40 && !HasFailure(); number += test_every()) {
    Random random = case_random(500 + number);
    pair.clear();
    const std::uint16_t dim = number % 2 == 0 ? 64 : 128;
    const ListShape shape{NKV_DTYPE_BF16, NKV_ROW_FORM_RAW, NKV_ROW_FORM_RAW, dim, dim};
    ListOnBoth list = append_to_both(pair, shape, 2, Content::kNormal, random);
    // NaN and infinities anywhere, subnormals and -0.
    constexpr std::uint32_t kPatterns[] = {0x7FC0, 0xFF80, 0x7F80, 0x0001, 0x8000, 0x807F};
    for (int i = 0; i < 12; ++i) {
      const std::size_t at = random() % list.keys.patterns.size();
      list.keys.patterns[at] = kPatterns[i % 6];
      list.values.patterns[random() % list.values.patterns.size()] = kPatterns[i % 6];
    }
    nkv_append_command again{};
    again.opcode = NKV_OPCODE_APPEND;
    again.head_dim = again.value_dim = dim;
    again.tokens = list.tokens;
    again.keys = store_rows(pair, list.keys);
    again.values = store_rows(pair, list.values);
    again.key_stride = again.value_stride = 2U * dim;
    again.page_list = list.page_list;
    ASSERT_EQ(pair.expect_same(again).status, NKV_STATUS_OK);
    const Question question = random_question(pair, list, NKV_ATTEND_MODE_DENSE, random);
    SCOPED_TRACE(case_name(500 + number) + ": " + question.name());
    const Answers answers = ask(pair, question);
    EXPECT_EQ(describe(answers.subject.completion), describe(answers.model.completion));
    for (std::size_t row = 0; row < question.command.group; ++row) {
      const Attention exact = question.answer(list, row);
      EXPECT_LT(max_norm_error(answers.subject.row(row, dim), exact.output), kDenseError);
      EXPECT_LT(max_norm_error(answers.model.row(row, dim), exact.output), kDenseError);
    }
  }
  expect_own_answers(pair);
}

TEST_P(ParityTest, TailAndBoundedOfListsWithoutCodesAreDense) {
  DevicePair pair(GetParam());
  if (!offers_feature(pair.subject().device(), NKV_FEATURE_CODES)) {
    GTEST_SKIP() << has_no("TAIL and BOUNDED");
  }
  for (std::uint64_t number = 1000; number < 1060 && !HasFailure(); number += test_every()) {
    Random random = case_random(number);
    pair.clear();
    const ListOnBoth list = attendable_list(pair, number, random);
    if (list.completion.status != NKV_STATUS_OK) continue;
    const std::uint8_t mode = number % 2 == 0 ? NKV_ATTEND_MODE_TAIL : NKV_ATTEND_MODE_BOUNDED;
    const Question question = random_question(pair, list, mode, random);
    SCOPED_TRACE(case_name(number) + ": " + list.shape.name() + ", " + question.name());
    const Answers answers = ask(pair, question);
    EXPECT_EQ(describe(answers.subject.completion), describe(answers.model.completion));
    EXPECT_NE(answers.subject.completion.flags & NKV_COMPLETION_FLAG_DENSE_FALLBACK, 0);
    const std::size_t dim = list.shape.value_dim;
    for (std::size_t row = 0; row < question.command.group; ++row) {
      const Attention exact = question.answer(list, row);
      EXPECT_LT(max_norm_error(answers.subject.row(row, dim), exact.output), kDenseError);
      EXPECT_LT(max_norm_error(answers.model.row(row, dim), exact.output), kDenseError);
      EXPECT_EQ(answers.subject.bound[row], 0.0F);
      EXPECT_EQ(answers.model.bound[row], 0.0F);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Devices, ParityTest, testing::ValuesIn(subject_uris()), device_name);

}  // namespace
}  // namespace nearkv::test
