// ATTEND, mode BOUNDED, on lists that are long beside their samples: the model's bits, and each way
// in which it may end.
#include <array>
#include <cmath>
#include <memory>

#include "sequences.hpp"

namespace nearkv::test {
namespace {

/// How often what has come of the commands.
struct Endings {
  std::array<unsigned, 5> within{};  ///< By rounds.
  std::array<unsigned, 5> dense{};
  std::array<unsigned, 5> capped{};

  void add(const nkv_completion& done) {
    auto& kind = (done.flags & NKV_COMPLETION_FLAG_DENSE_FALLBACK) != 0 ? dense
                 : (done.flags & NKV_COMPLETION_FLAG_CAPPED) != 0       ? capped
                                                                        : within;
    ++kind.at(done.rounds);
  }

  void print() const {
    const auto line = [](const char* name, const std::array<unsigned, 5>& counts) {
      std::printf("  %s after 0 to 4 rounds: %u %u %u %u %u\n", name, counts[0], counts[1],
                  counts[2], counts[3], counts[4]);
    };
    line("within", within);
    line("dense", dense);
    line("capped", capped);
  }
};

ListShape bounded_shape(Random& random) {
  constexpr std::uint16_t kDims[] = {16, 32, 48, 64};
  constexpr std::uint8_t kTypes[] = {NKV_DTYPE_BF16, NKV_DTYPE_BF16, NKV_DTYPE_FP16,
                                     NKV_DTYPE_FP8_E4M3};
  ListShape shape;
  shape.dtype = kTypes[random() % std::size(kTypes)];
  shape.head_dim = kDims[random() % std::size(kDims)];
  shape.value_dim = kDims[random() % std::size(kDims)];
  if (shape.dtype == NKV_DTYPE_BF16) {
    shape.k_form = random() % 2 == 0 ? NKV_ROW_FORM_RAW : NKV_ROW_FORM_DELTA4;
    shape.v_form = random() % 2 == 0 ? NKV_ROW_FORM_RAW : NKV_ROW_FORM_DELTA4;
  }
  if (random() % 6 == 0) {
    shape.v_form = NKV_ROW_FORM_NONE;
    shape.value_dim = shape.head_dim;
  }
  return shape;
}

nkv_attend_command bounded_command(DevicePair& pair, const ListOnBoth& list, Random& random) {
  nkv_attend_command command{};
  command.opcode = NKV_OPCODE_ATTEND;
  command.mode = NKV_ATTEND_MODE_BOUNDED;
  command.flags = static_cast<std::uint8_t>(random() & NKV_ATTEND_FLAG_ALL);
  command.head_dim = list.shape.head_dim;
  command.value_dim = list.shape.value_dim;
  command.tokens = list.tokens - (random() % 2 == 0 ? 0 : pick(random, 1, 200));
  command.window = random() % 4 == 0 ? pick(random, list.tokens / 2, list.tokens) : 0;
  command.sinks = static_cast<std::uint8_t>(pick(random, 0, 80));
  command.page_list = list.page_list;
  command.group = static_cast<std::uint8_t>(random() % 3 == 0 ? pick(random, 2, 8) : 1);
  command.query_dtype = NKV_DTYPE_FP32;
  const Rows queries = random_queries(list, command.query_dtype, command.group, random);
  command.query = store_rows(pair, queries);
  command.scale = std::exp2(static_cast<float>(pick(random, 0, 6)) - 4.0F) /
                  std::sqrt(static_cast<float>(list.shape.head_dim));
  command.z = static_cast<std::uint8_t>(random() % 2 == 0 ? 0 : pick(random, 8, 80));
  command.error = std::exp2(-0.5F * static_cast<float>(pick(random, 3, 11)));
  command.byte_cap = static_cast<std::uint8_t>(random() % 3 == 0 ? pick(random, 50, 250) : 0);
  command.seed = static_cast<std::uint32_t>(random());
  command.result = pair.allocate(std::uint64_t{command.group} * command.value_dim * 4 + 512);
  return command;
}

class BoundedParityTest : public testing::TestWithParam<const char*> {};

TEST_P(BoundedParityTest, EveryRoundLeavesTheModelsBits) {
  constexpr std::uint64_t kLists = 2;
  constexpr unsigned kCommandsPerList = 16;
  DevicePair pair(GetParam());
  Endings endings;
  for (std::uint64_t number = 0; number < kLists && !HasFailure(); ++number) {
    Random random = case_random(12000 + number);
    pair.clear();
    const ListOnBoth list = append_to_both(pair, bounded_shape(random), pick(random, 60, 110),
                                           Content::kNormal, random);
    SCOPED_TRACE(case_name(12000 + number) + ": " + list.shape.name());
    ASSERT_EQ(list.completion.status, NKV_STATUS_OK);
    for (unsigned i = 0; i < kCommandsPerList && !HasFailure(); ++i) {
      const nkv_attend_command command = bounded_command(pair, list, random);
      SCOPED_TRACE("command " + std::to_string(i) + ", error " + std::to_string(command.error));
      const nkv_completion done = pair.expect_same(command);
      EXPECT_EQ(done.status, NKV_STATUS_OK);
      endings.add(done);
    }
  }
  EXPECT_EQ(pair.not_offered(), 0U);
  endings.print();
  for (unsigned rounds = 1; rounds <= 3; ++rounds) {
    EXPECT_GT(endings.within.at(rounds), 0U) << rounds << " rounds";
  }
  EXPECT_GT(endings.dense[0], 0U);
  EXPECT_GT(endings.dense[1] + endings.dense[2] + endings.dense[3], 0U);
  EXPECT_GT(endings.capped[0], 0U);
  EXPECT_GT(endings.capped[1] + endings.capped[2] + endings.capped[3], 0U);
}

// The sums of a page are first read by the visits, of which many are under way by then.
TEST_P(BoundedParityTest, APageWithWrongSumsEndsTheCommand) {
  DevicePair pair(GetParam());
  Random random = case_random(12100);
  const ListShape shape{NKV_DTYPE_BF16, NKV_ROW_FORM_RAW, NKV_ROW_FORM_RAW, 16, 16};
  constexpr std::uint32_t kPages = 100;
  const ListOnBoth list = append_to_both(pair, shape, kPages, Content::kNormal, random);
  ASSERT_EQ(list.completion.status, NKV_STATUS_OK);
  const nkv_page_shape page_shape{.k_form = shape.k_form,
                                  .v_form = shape.v_form,
                                  .dtype = shape.dtype,
                                  .flags = 0,
                                  .head_dim = shape.head_dim,
                                  .value_dim = shape.value_dim};
  nkv_page_layout layout{};
  nkv_lay_out_page(&page_shape, &layout);
  for (const std::uint32_t page : {0U, 60U, kPages - 1}) {
    SCOPED_TRACE("page " + std::to_string(page));
    const std::uint64_t place = list.page_at(pair, page) + layout.offset[NKV_PAGE_ARRAY_V_SUM];
    const std::byte right = *pair.model().at<std::byte>(place);
    const std::byte wrong = right ^ std::byte{1};
    pair.write(place, std::span(&wrong, 1));
    for (const std::uint8_t mode : {NKV_ATTEND_MODE_TAIL, NKV_ATTEND_MODE_BOUNDED}) {
      nkv_attend_command command = bounded_command(pair, list, random);
      command.mode = mode;
      command.tokens = list.tokens;
      command.window = 0;
      command.byte_cap = 255;
      EXPECT_EQ(pair.expect_same(command).status, NKV_STATUS_CORRUPT) << int{mode};
    }
    pair.write(place, std::span(&right, 1));
  }
  EXPECT_EQ(pair.not_offered(), 0U);
}

INSTANTIATE_TEST_SUITE_P(Devices, BoundedParityTest,
                         testing::Values("rtl:?latency=7&jitter=90&seed=3"),
                         [](const auto& test) { return "rtl_" + std::to_string(test.index); });

}  // namespace
}  // namespace nearkv::test
