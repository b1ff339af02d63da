// Pages with codes: what a pool says of them and of their gains, and what approximate reads cost.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "nearkv/pool.hpp"
#include "support/devices.hpp"
#include "support/kv_data.hpp"
#include "support/layer_rows.hpp"
#include "support/offers.hpp"

namespace nearkv::test {
namespace {

constexpr std::size_t kManyTokens = 4096;
static_assert(kManyTokens > kLeastApproximateTokens);

Pool::Options with_codes() {
  Pool::Options options = small_pool();
  options.codes = true;
  return options;
}

std::vector<std::int8_t> some_gains(int seed) {
  std::vector<std::int8_t> gains(kDim);
  for (std::size_t channel = 0; channel < kDim; ++channel) {
    gains[channel] = static_cast<std::int8_t>((7 * channel + static_cast<std::size_t>(seed)) % 33);
  }
  return gains;
}

struct Attended {
  std::vector<float> output = std::vector<float>(kDim);
  float lse = 0;
  float bound = 0;
  NearStats stats;  ///< Of this call.

  [[nodiscard]] std::uint64_t near_bytes() const {
    return stats.stream_bytes + stats.refine_bytes + stats.exact_bytes + stats.value_bytes;
  }
};

/// |a - b| relative to |b|.
double error_of(const Attended& a, const Attended& b) {
  double error = 0;
  double norm = 0;
  for (std::size_t i = 0; i < kDim; ++i) {
    error += std::pow(a.output[i] - b.output[i], 2);
    norm += std::pow(b.output[i], 2);
  }
  return std::sqrt(error / norm);
}

/// A query that finds some of a head's keys, in layer 0.
Attended attend(Pool* pool, const KvData& data, std::uint8_t mode, std::uint16_t head = 0,
                std::uint32_t window = 0) {
  const std::vector<std::uint16_t> query = make_queries(data, 1, 4.0, 5);
  Attended attended;
  AttendRequest request;
  request.sequence = 1;
  request.kv_head = head;
  request.query = std::as_bytes(std::span(query));
  request.output = attended.output;
  request.lse = std::span(&attended.lse, 1);
  request.bound = std::span(&attended.bound, 1);
  AttendOptions options;
  options.scale = 0.125F;
  options.mode = mode;
  options.window = window;
  options.error = 0.1F;
  pool->reset_stats();
  EXPECT_EQ(pool->attend(std::span(&request, 1), options), Status::kOk) << pool->last_error();
  attended.stats = pool->stats();
  return attended;
}

class PoolCodesTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    if (!offers_feature(*device_, NKV_FEATURE_CODES)) GTEST_SKIP() << has_no("codes");
    pool_ = create_or_throw(device_, with_codes());
    ASSERT_EQ(pool_->create_sequence(1), Status::kOk);
  }

  const std::shared_ptr<Device> device_ = open_or_throw(GetParam());
  std::unique_ptr<Pool> pool_;
  const LayerRows rows_ = LayerRows(kManyTokens, 1);
};

TEST_P(PoolCodesTest, BoundedKeepsItsBoundAndReadsLess) {
  ASSERT_EQ(append(pool_.get(), 1, 0, rows_, 0, kManyTokens), Status::kOk) << pool_->last_error();
  for (std::uint16_t head = 0; head < kHeads; ++head) {
    const Attended dense = attend(pool_.get(), rows_.heads[head], NKV_ATTEND_MODE_DENSE, head);
    const Attended bounded = attend(pool_.get(), rows_.heads[head], NKV_ATTEND_MODE_BOUNDED, head);
    EXPECT_EQ(bounded.stats.dense_fallbacks, 0U);
    EXPECT_LE(bounded.bound, 0.1F);
    EXPECT_LE(error_of(bounded, dense), 0.1);
    EXPECT_LT(bounded.near_bytes(), dense.near_bytes() / 2);
  }
}

TEST_P(PoolCodesTest, RowsAreWhatTheyAreWithoutCodes) {
  ASSERT_EQ(append(pool_.get(), 1, 1, rows_, 0, kManyTokens), Status::kOk);
  EXPECT_TRUE(holds(pool_.get(), 1, 1, 0, rows_));
  const std::uint64_t bytes = pool_->usage().page_bytes;
  pool_.reset();
  pool_ = create_or_throw(device_, small_pool());
  ASSERT_EQ(pool_->create_sequence(1), Status::kOk);
  ASSERT_EQ(append(pool_.get(), 1, 1, rows_, 0, kManyTokens), Status::kOk);
  EXPECT_GT(bytes, pool_->usage().page_bytes);
}

TEST_P(PoolCodesTest, FewTokensAreReadExactly) {
  ASSERT_EQ(append(pool_.get(), 1, 0, rows_, 0, kManyTokens), Status::kOk);
  for (const std::uint8_t mode : {NKV_ATTEND_MODE_BOUNDED, NKV_ATTEND_MODE_TAIL}) {
    const std::uint32_t few = kLeastApproximateTokens - 1;
    const Attended dense = attend(pool_.get(), rows_.heads[0], NKV_ATTEND_MODE_DENSE, 0, few);
    const Attended asked = attend(pool_.get(), rows_.heads[0], mode, 0, few);
    EXPECT_LT(error_of(asked, dense), 1e-5);
    EXPECT_EQ(asked.near_bytes(), dense.near_bytes());
    EXPECT_EQ(asked.stats.dense_fallbacks, 1U);
    EXPECT_EQ(asked.bound, 0.0F);
    EXPECT_EQ(attend(pool_.get(), rows_.heads[0], mode, 0, few + 1).stats.dense_fallbacks, 0U);
  }
}

TEST_P(PoolCodesTest, GainsCanBeReplacedUntilPagesHaveThem) {
  std::vector<std::int8_t> gains;
  EXPECT_EQ(pool_->gains(0, 1, &gains), Status::kNotFound);
  ASSERT_EQ(pool_->set_gains(0, 1, some_gains(1)), Status::kOk);
  ASSERT_EQ(pool_->set_gains(0, 1, some_gains(2)), Status::kOk);
  ASSERT_EQ(append(pool_.get(), 1, 0, rows_, 0, 64), Status::kOk);
  EXPECT_EQ(pool_->set_gains(0, 1, some_gains(2)), Status::kOk);
  EXPECT_EQ(pool_->set_gains(0, 1, some_gains(3)), Status::kExists);
  EXPECT_NE(pool_->last_error().find("other gains"), std::string::npos) << pool_->last_error();
  ASSERT_EQ(pool_->gains(0, 1, &gains), Status::kOk);
  EXPECT_EQ(gains, some_gains(2));

  // The other head was appended without any: zeros are its gains now. Layer 1 has no page yet.
  ASSERT_EQ(pool_->gains(0, 0, &gains), Status::kOk);
  EXPECT_EQ(gains, std::vector<std::int8_t>(kDim));
  EXPECT_EQ(pool_->set_gains(0, 0, some_gains(1)), Status::kExists);
  EXPECT_EQ(pool_->set_gains(1, 1, some_gains(3)), Status::kOk);
}

TEST_P(PoolCodesTest, AllSequencesOfAHeadHaveItsGains) {
  ASSERT_EQ(pool_->set_gains(0, 0, some_gains(1)), Status::kOk);
  for (std::uint16_t layer = 0; layer < kLayers; ++layer) {
    ASSERT_EQ(append(pool_.get(), 1, layer, rows_, 0, 2048), Status::kOk);
  }
  ASSERT_EQ(pool_->fork(1, 2, 1024), Status::kOk);
  ASSERT_EQ(append(pool_.get(), 2, 0, rows_, 1024, kManyTokens - 1024), Status::kOk);
  ASSERT_EQ(pool_->drop(1), Status::kOk);
  EXPECT_EQ(pool_->set_gains(0, 0, some_gains(2)), Status::kExists);
  // Pages of both sequences in one list are read by codes: other gains would be read exactly.
  ASSERT_EQ(pool_->create_sequence(1), Status::kExists);
  ASSERT_EQ(pool_->fork(2, 3, 1024), Status::kOk);
  ASSERT_EQ(append(pool_.get(), 3, 0, rows_, 1024, kManyTokens - 1024), Status::kOk);
  std::uint64_t pages = 0;
  EXPECT_EQ(pool_->scrub(3, &pages), Status::kOk);
}

TEST_P(PoolCodesTest, WhatMakesNoSenseIsRefused) {
  EXPECT_EQ(pool_->set_gains(kLayers, 0, some_gains(1)), Status::kBadArgument);
  EXPECT_EQ(pool_->set_gains(0, kHeads, some_gains(1)), Status::kBadArgument);
  const std::vector<std::int8_t> fewer(kDim - 1);
  EXPECT_EQ(pool_->set_gains(0, 0, fewer), Status::kBadArgument);
  EXPECT_NE(pool_->last_error().find("64 channels"), std::string::npos) << pool_->last_error();
  pool_.reset();
  pool_ = create_or_throw(device_, small_pool());
  EXPECT_FALSE(pool_->has_codes());
  EXPECT_EQ(pool_->set_gains(0, 0, some_gains(1)), Status::kBadArgument);
}

TEST_P(PoolCodesTest, LatentsHaveCodesToo) {
  Pool::Options options = with_codes();
  options.shape.kv_heads = 1;
  options.shape.head_dim = 96;
  options.shape.value_dim = kDim;
  options.shape.v_form = NKV_ROW_FORM_NONE;
  pool_.reset();
  pool_ = create_or_throw(device_, options);
  ASSERT_EQ(pool_->create_sequence(1), Status::kOk);
  const KvData data = make_kv(Shape::kTopics, kManyTokens, 96, 96, 1);
  const HostRows keys{reinterpret_cast<const std::byte*>(data.keys.data()), 96 * 2, 0};
  ASSERT_EQ(pool_->append(1, 0, keys, {}, kManyTokens), Status::kOk) << pool_->last_error();
  const Attended dense = attend(pool_.get(), data, NKV_ATTEND_MODE_DENSE);
  const Attended bounded = attend(pool_.get(), data, NKV_ATTEND_MODE_BOUNDED);
  EXPECT_LE(error_of(bounded, dense), 0.1);
  EXPECT_LT(bounded.near_bytes(), dense.near_bytes());
}

INSTANTIATE_TEST_SUITE_P(Devices, PoolCodesTest, testing::ValuesIn(device_uris()), device_name);

/// A device that does not work by codes, as the engine in RTL is.
class CodelessDevice : public Device {
 public:
  explicit CodelessDevice(std::unique_ptr<Device> device) : device_(std::move(device)) {}

  std::uint64_t read_csr(std::uint32_t offset) override {
    const std::uint64_t value = device_->read_csr(offset);
    return offset == NKV_REG_FEATURES ? value & ~NKV_FEATURE_CODES : value;
  }
  void write_csr(std::uint32_t offset, std::uint64_t value) override {
    device_->write_csr(offset, value);
  }
  std::span<std::byte> memory() override { return device_->memory(); }
  Status wait(std::uint64_t* epoch, std::chrono::nanoseconds timeout) override {
    return device_->wait(epoch, timeout);
  }

 private:
  std::unique_ptr<Device> device_;
};

TEST(PoolWithoutCodesTest, ADeviceThatMakesNoneRefusesThem) {
  const auto device = std::make_shared<CodelessDevice>(open_or_throw("cpu:?memory=64MiB"));
  std::unique_ptr<Pool> pool = create_or_throw(device, small_pool());
  pool.reset();
  for (const auto start : {Pool::create, Pool::open}) {
    std::string reason;
    EXPECT_EQ(start(device, with_codes(), &pool, &reason), Status::kUnsupported);
    EXPECT_NE(reason.find("CODES"), std::string::npos) << reason;
    EXPECT_EQ(pool, nullptr);
  }
}

/// A pool over a file, so that it can be taken up again.
class PoolCodesRestartTest : public testing::Test {
 protected:
  void SetUp() override {
    file_ = std::filesystem::temp_directory_path() /
            ("nearkv_pool_codes_" + std::to_string(::getpid()));
    start(Pool::create, with_codes());
    ASSERT_EQ(pool_->set_gains(0, 0, some_gains(1)), Status::kOk);
    ASSERT_EQ(pool_->set_gains(0, 1, some_gains(2)), Status::kOk);
    ASSERT_EQ(pool_->create_sequence(1), Status::kOk);
    ASSERT_EQ(append(pool_.get(), 1, 0, rows_, 0, 2048), Status::kOk);
  }
  void TearDown() override {
    pool_.reset();
    device_.reset();
    std::filesystem::remove(file_);
  }

  using Start = Status (*)(std::shared_ptr<Device>, const Pool::Options&, std::unique_ptr<Pool>*,
                           std::string*);
  void start(Start how, const Pool::Options& options) {
    pool_.reset();
    device_.reset();
    device_ = open_or_throw("cpu:" + file_.string() + "?memory=64MiB&threads=2");
    std::string reason;
    ASSERT_EQ(how(device_, options, &pool_, &reason), Status::kOk) << reason;
  }

  void expect_gains() {
    std::vector<std::int8_t> gains;
    for (std::uint16_t head = 0; head < kHeads; ++head) {
      ASSERT_EQ(pool_->gains(0, head, &gains), Status::kOk) << pool_->last_error();
      EXPECT_EQ(gains, some_gains(1 + head));
    }
    EXPECT_EQ(pool_->gains(1, 0, &gains), Status::kNotFound);
    EXPECT_EQ(pool_->set_gains(0, 0, some_gains(3)), Status::kExists);
  }

  const LayerRows rows_ = LayerRows(kManyTokens, 1);
  std::filesystem::path file_;
  std::shared_ptr<Device> device_;
  std::unique_ptr<Pool> pool_;
};

TEST_F(PoolCodesRestartTest, GainsAreFoundAgainInThePages) {
  start(Pool::open, with_codes());
  expect_gains();
  ASSERT_EQ(append(pool_.get(), 1, 0, rows_, 2048, 2048), Status::kOk);
  // One set of gains in all pages: had it been another one, the half would have been read exactly.
  const Attended dense = attend(pool_.get(), rows_.heads[0], NKV_ATTEND_MODE_DENSE);
  const Attended bounded = attend(pool_.get(), rows_.heads[0], NKV_ATTEND_MODE_BOUNDED);
  EXPECT_LT(bounded.near_bytes(), dense.near_bytes() / 2);
  EXPECT_LE(error_of(bounded, dense), 0.1);
}

TEST_F(PoolCodesRestartTest, GainsAreFoundAgainInCompressedPages) {
  ASSERT_EQ(pool_->transcode(1, NKV_CODEC_PLANES_ZSTD), Status::kOk) << pool_->last_error();
  start(Pool::open, with_codes());
  expect_gains();
  ASSERT_EQ(pool_->transcode(1, NKV_CODEC_NONE), Status::kOk) << pool_->last_error();
  ASSERT_EQ(append(pool_.get(), 1, 0, rows_, 2048, 2048), Status::kOk);
  const Attended dense = attend(pool_.get(), rows_.heads[1], NKV_ATTEND_MODE_DENSE, 1);
  const Attended bounded = attend(pool_.get(), rows_.heads[1], NKV_ATTEND_MODE_BOUNDED, 1);
  EXPECT_LT(bounded.near_bytes(), dense.near_bytes() / 2);
}

TEST_F(PoolCodesRestartTest, CodesCanBeLeftOutAndTakenUpAtAnyStart) {
  start(Pool::open, small_pool());
  ASSERT_EQ(append(pool_.get(), 1, 0, rows_, 2048, 1024), Status::kOk);
  const Attended dense = attend(pool_.get(), rows_.heads[0], NKV_ATTEND_MODE_DENSE);
  start(Pool::open, with_codes());
  expect_gains();
  const Attended bounded = attend(pool_.get(), rows_.heads[0], NKV_ATTEND_MODE_BOUNDED);
  EXPECT_LE(error_of(bounded, dense), 0.1);
}

}  // namespace
}  // namespace nearkv::test
