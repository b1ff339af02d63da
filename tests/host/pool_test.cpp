// The pool over every device: sequences, forks, limits, and what a restart finds again.
#include "nearkv/pool.hpp"

#include <gtest/gtest.h>

#include <string>

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
  void SetUp() override {
    std::string reason;
    std::unique_ptr<Device> device;
    ASSERT_EQ(open_device(GetParam(), &device, &reason), Status::kOk) << reason;
    device_ = std::move(device);
    ASSERT_EQ(Pool::create(device_, small_pool(), &pool_, &reason), Status::kOk) << reason;
  }

  std::shared_ptr<Device> device_;
  std::unique_ptr<Pool> pool_;
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

INSTANTIATE_TEST_SUITE_P(Devices, PoolTest, testing::ValuesIn(device_uris()), device_name);

}  // namespace
}  // namespace nearkv::test
