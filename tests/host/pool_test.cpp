// The pool over every device: sequences, forks, limits, and what a restart finds again.
#include "nearkv/pool.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <string>

#include "nearkv/queue.hpp"
#include "support/devices.hpp"
#include "support/layer_rows.hpp"
#include "support/reference.hpp"

namespace nearkv::test {
namespace {

/// Dense attention of the pool against double precision for one head; tokens 0: all.
void expect_attention(Pool* pool, std::uint64_t sequence, std::uint16_t layer, std::uint16_t head,
                      const KvData& data, std::size_t tokens) {
  KvData visible = data;
  visible.tokens = tokens;
  const std::vector<std::uint16_t> queries = make_queries(data, 3, 2.0, 17);
  std::vector<float> output(3 * kDim);
  std::vector<float> lse(3);
  AttendRequest request;
  request.sequence = sequence;
  request.layer = layer;
  request.kv_head = head;
  request.rows = 3;
  request.query = std::as_bytes(std::span(queries));
  request.output = output;
  request.lse = lse;
  AttendOptions options;
  options.scale = 0.125F;
  ASSERT_EQ(pool->attend(std::span(&request, 1), options), Status::kOk) << pool->last_error();
  for (std::size_t row = 0; row < 3; ++row) {
    AttentionOptions reference;
    reference.scale = 0.125;
    reference.tokens = tokens;
    const Attention exact =
        reference_attention(visible, std::span(queries).subspan(row * kDim, kDim), reference);
    EXPECT_LT(max_norm_error(std::span(output).subspan(row * kDim, kDim), exact.output), 1.0 / 256);
    EXPECT_NEAR(lse[row], exact.lse, 2e-3);
  }
}

class PoolTest : public testing::TestWithParam<std::string> {
 protected:
  const std::shared_ptr<Device> device_ = open_or_throw(GetParam());
  std::unique_ptr<Pool> pool_ = create_or_throw(device_, small_pool());
};

TEST_P(PoolTest, AttendsToWhatWasAppended) {
  const LayerRows first(256, 1);
  const LayerRows second(320, 2);
  ASSERT_EQ(pool_->create_sequence(7), Status::kOk);
  ASSERT_EQ(append(pool_.get(), 7, 0, first, 0, 192), Status::kOk) << pool_->last_error();
  ASSERT_EQ(append(pool_.get(), 7, 1, second, 0, 320), Status::kOk);
  ASSERT_EQ(append(pool_.get(), 7, 0, first, 192, 64), Status::kOk);
  for (std::uint16_t head = 0; head < kHeads; ++head) {
    expect_attention(pool_.get(), 7, 0, head, first.heads[head], 256);
    expect_attention(pool_.get(), 7, 1, head, second.heads[head], 320);
  }
  std::uint32_t tokens = 0;
  EXPECT_EQ(pool_->tokens(7, 0, &tokens), Status::kOk);
  EXPECT_EQ(tokens, 256U);
}

TEST_P(PoolTest, ForksShareThePagesOfTheirPrefix) {
  const LayerRows trunk(256, 1);
  const LayerRows branch(128, 2);
  ASSERT_EQ(pool_->create_sequence(1), Status::kOk);
  for (std::uint16_t layer = 0; layer < kLayers; ++layer) {
    ASSERT_EQ(append(pool_.get(), 1, layer, trunk, 0, 256), Status::kOk);
  }
  const std::uint64_t before = pool_->usage().pages;
  ASSERT_EQ(pool_->fork(1, 2, 128), Status::kOk) << pool_->last_error();
  EXPECT_EQ(pool_->usage().pages, before);
  ASSERT_EQ(append(pool_.get(), 2, 0, branch, 0, 128), Status::kOk);

  KvData mixed = trunk.heads[1];
  std::copy(branch.heads[1].keys.begin(), branch.heads[1].keys.end(),
            mixed.keys.begin() + 128 * kDim);
  std::copy(branch.heads[1].values.begin(), branch.heads[1].values.end(),
            mixed.values.begin() + 128 * kDim);
  expect_attention(pool_.get(), 2, 0, 1, mixed, 256);
  expect_attention(pool_.get(), 1, 0, 1, trunk.heads[1], 256);

  // The child outlives its parent.
  ASSERT_EQ(pool_->drop(1), Status::kOk);
  expect_attention(pool_.get(), 2, 0, 1, mixed, 256);
  EXPECT_EQ(pool_->drop(1), Status::kNotFound);
  ASSERT_EQ(pool_->drop(2), Status::kOk);
  EXPECT_EQ(pool_->usage().pages, 0U);
}

TEST_P(PoolTest, LeavesMemoryToOthersWhoFindItsPages) {
  constexpr std::uint64_t kOthers = 1 << 20;
  const std::span<std::byte> memory = device_->memory();
  Pool::Options options = small_pool();
  options.memory_bytes = memory.size() - kOthers;
  pool_.reset();
  std::ranges::fill(memory.last(kOthers), std::byte{0x5A});
  pool_ = create_or_throw(device_, options);
  const LayerRows rows(128, 1);
  ASSERT_EQ(pool_->create_sequence(3), Status::kOk);
  ASSERT_EQ(append(pool_.get(), 3, 1, rows, 0, 128), Status::kOk);

  // Somebody else's queue, over all of the memory, attends to those pages.
  std::uint64_t list = 0;
  std::uint32_t tokens = 0;
  ASSERT_EQ(pool_->page_list(3, 1, 1, &list, &tokens), Status::kOk);
  EXPECT_EQ(tokens, 128U);
  Queue::Options queue_options;
  queue_options.index = 1;
  queue_options.rings_at = options.memory_bytes;
  queue_options.window_bytes = memory.size();
  std::unique_ptr<Queue> queue;
  ASSERT_EQ(Queue::open(device_.get(), queue_options, &queue), Status::kOk);
  nkv_pages_command command{};
  command.opcode = NKV_OPCODE_SCRUB;
  command.count = 2;
  command.source = list;
  std::uint16_t tag = 0;
  ASSERT_EQ(queue->submit(command, &tag), Status::kOk);
  queue->ring();
  ASSERT_EQ(queue->wait(std::chrono::seconds(60)), Status::kOk);
  nkv_completion completion{};
  ASSERT_EQ(queue->poll(std::span(&completion, 1)), 1U);
  EXPECT_EQ(completion.status, NKV_STATUS_OK);
  EXPECT_EQ(completion.count, 2U);

  const auto untouched = memory.last(kOthers - Queue::ring_bytes(queue_options.ring_entries));
  EXPECT_TRUE(std::ranges::all_of(untouched, [](std::byte b) { return b == std::byte{0x5A}; }));
  EXPECT_EQ(pool_->page_list(3, kLayers, 0, &list, &tokens), Status::kNotFound);
  EXPECT_EQ(pool_->page_list(3, 0, kHeads, &list, &tokens), Status::kNotFound);
  EXPECT_EQ(pool_->page_list(4, 0, 0, &list, &tokens), Status::kNotFound);
  options.memory_bytes = memory.size() + 1;
  std::string reason;
  EXPECT_EQ(Pool::create(device_, options, &pool_, &reason), Status::kBadArgument);
  EXPECT_NE(reason, "");
}

INSTANTIATE_TEST_SUITE_P(Devices, PoolTest, testing::ValuesIn(device_uris()), device_name);

}  // namespace
}  // namespace nearkv::test
