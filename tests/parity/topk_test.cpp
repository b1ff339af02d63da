// TOPK: the same ids, scores and counts, and as many bursts in each stage.
#include <algorithm>
#include <iterator>

#include "sequences.hpp"

namespace nearkv::test {
namespace {

constexpr std::uint32_t kMostTopK = 300;

std::uint8_t random_query_dtype(std::uint8_t mode, Random& random) {
  constexpr std::uint8_t kTypes[] = {NKV_DTYPE_BF16, NKV_DTYPE_FP16, NKV_DTYPE_FP32,
                                     NKV_DTYPE_FP8_E4M3};
  return kTypes[pick(random, 0, mode == NKV_SELECT_INDEXER ? 3 : 2)];
}

void expect_same_selection(DevicePair& pair, const ListOnBoth& list, std::uint8_t mode,
                           Random& random) {
  nkv_topk_command command{};
  command.opcode = NKV_OPCODE_TOPK;
  command.head_dim = list.shape.head_dim;
  command.tokens = random() % 3 == 0 ? list.tokens : pick(random, 0, list.tokens);
  command.window = random() % 3 == 0 ? pick(random, 1, list.tokens) : 0;
  command.sinks = static_cast<std::uint8_t>(pick(random, 0, 8));
  command.page_list = list.page_list;
  command.scale = 0.125F * static_cast<float>(pick(random, 1, 16)) * (random() % 8 == 0 ? -1 : 1);
  command.z = static_cast<std::uint8_t>(random() % 2 == 0 ? 0 : pick(random, 1, 255));
  constexpr std::uint16_t kCounts[] = {1, 7, 64, kMostTopK};
  command.top_k = kCounts[pick(random, 0, 3)];
  command.mode = mode;
  command.group = static_cast<std::uint8_t>(pick(random, 1, 16));
  command.query_dtype = random_query_dtype(mode, random);
  command.query =
      store_rows(pair, random_queries(list, command.query_dtype, command.group, random));
  if (mode == NKV_SELECT_INDEXER) {
    std::vector<float> weights(command.group);
    std::normal_distribution<float> normal;
    for (float& weight : weights) weight = normal(random);
    command.weights = pair.store(std::span<const float>(weights));
  }
  command.result =
      pair.allocate(std::uint64_t{command.group} * kMostTopK * 8 + 3 * NKV_BURST_BYTES * 16);
  SCOPED_TRACE("mode " + std::to_string(mode) + ", tokens " + std::to_string(command.tokens) +
               ", window " + std::to_string(command.window) + ", top_k " +
               std::to_string(command.top_k) + ", group " + std::to_string(command.group) + ", z " +
               std::to_string(command.z) + ", query dtype " + std::to_string(command.query_dtype));
  pair.expect_same(command);
}

TEST_P(ParityTest, SelectionsAreTheSame) {
  constexpr Content kContents[] = {Content::kNormal, Content::kSpecials, Content::kZeros,
                                   Content::kEqual, Content::kClose};
  DevicePair pair(GetParam());
  std::uint32_t done = 0;
  for (std::uint64_t number = 0; number < 150; number += test_every()) {
    Random random = case_random(number);
    ListShape shape = random_shape(random, false);
    const Content content = kContents[number % std::size(kContents)];
    // INDEXER takes RAW keys only; what it says to others is compared too, now and then.
    const bool indexer = random() % 2 == 0;
    if (indexer && random() % 8 != 0) shape.k_form = NKV_ROW_FORM_RAW;
    SCOPED_TRACE(case_name(number) + ": " + shape.name() + ", content " +
                 std::to_string(static_cast<int>(content)));
    pair.clear();
    const std::uint32_t pages = number % 7 == 0 ? 32 : pick(random, 1, 9);
    const ListOnBoth list = append_to_both(pair, shape, pages, content, random);
    if (list.completion.status != NKV_STATUS_OK) continue;
    ++done;
    expect_same_selection(pair, list, NKV_SELECT_STATISTICAL, random);
    expect_same_selection(pair, list, NKV_SELECT_FULL, random);
    if (indexer) expect_same_selection(pair, list, NKV_SELECT_INDEXER, random);
    if (HasFailure()) break;
  }
  EXPECT_GT(done, 75 / test_every()) << "too few cases could be appended to say anything";
}

/// FULL for the best `top_k` tokens of a list.
nkv_topk_command full_selection(DevicePair& pair, const ListOnBoth& list, const Rows& queries,
                                std::uint16_t top_k) {
  nkv_topk_command command{};
  command.opcode = NKV_OPCODE_TOPK;
  command.mode = NKV_SELECT_FULL;
  command.head_dim = list.shape.head_dim;
  command.tokens = list.tokens;
  command.page_list = list.page_list;
  command.scale = 1;
  command.top_k = top_k;
  command.group = static_cast<std::uint8_t>(queries.count);
  command.query_dtype = queries.dtype;
  command.query = store_rows(pair, queries);
  command.result = pair.allocate(queries.count * top_k * 8 + 3 * NKV_BURST_BYTES * queries.count);
  return command;
}

/// cpu: scores in binary32 first: what its rounding leaves in question is ranked exactly.
TEST_P(ParityTest, ScoresThatBinary32DoesNotTellApartAreRanked) {
  if (!GetParam().starts_with("cpu:")) GTEST_SKIP() << "other devices score in integers alone";
  constexpr std::uint16_t kDims[] = {48, 64, 128, 256};
  DevicePair pair(GetParam());
  for (std::uint64_t number = 1000; number < 1020 && !HasFailure(); number += test_every()) {
    Random random = case_random(number);
    ListShape shape;
    shape.head_dim = kDims[number % 4];
    SCOPED_TRACE(case_name(number) + ": " + shape.name());
    pair.clear();
    const ListOnBoth list = append_to_both(pair, shape, 64, Content::kClose, random);
    ASSERT_EQ(list.completion.status, NKV_STATUS_OK);
    const std::uint8_t dtype = number % 3 == 0 ? NKV_DTYPE_FP32 : NKV_DTYPE_BF16;
    const Rows queries = random_queries(list, dtype, 1 + number % 3, random);
    pair.expect_same(
        full_selection(pair, list, queries, static_cast<std::uint16_t>(1 + number % 100)));
  }
}

/// More of them than cpu: keeps.
TEST_P(ParityTest, ManyTiesAreRankedByTheirIndex) {
  if (!GetParam().starts_with("cpu:")) GTEST_SKIP() << "other devices keep the best alone";
  DevicePair pair(GetParam());
  Random random = case_random(2000);
  ListShape shape;
  shape.head_dim = 16;
  const ListOnBoth list = append_to_both(pair, shape, 200, Content::kEqual, random);
  ASSERT_EQ(list.completion.status, NKV_STATUS_OK);
  Rows queries = random_queries(list, NKV_DTYPE_BF16, 2, random);
  pair.expect_same(full_selection(pair, list, queries, 7));
  std::fill_n(queries.patterns.begin(), shape.head_dim, 0);
  pair.expect_same(full_selection(pair, list, queries, 7));
}

INSTANTIATE_TEST_SUITE_P(Devices, ParityTest, testing::ValuesIn(subject_uris()), device_name);

}  // namespace
}  // namespace nearkv::test
