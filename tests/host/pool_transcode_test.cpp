// Cooling and warming a sequence: nothing is lost, nothing stays behind, a restart finds it.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <filesystem>

#include "nearkv/pool.hpp"
#include "support/devices.hpp"
#include "support/kv_data.hpp"
#include "support/offers.hpp"

namespace nearkv::test {
namespace {

constexpr std::uint16_t kDim = 64;
constexpr std::uint32_t kTokens = 320;
constexpr std::size_t kRows = 2;

Pool::Options one_head() {
  Pool::Options options;
  options.shape.head_dim = kDim;
  options.shape.value_dim = kDim;
  options.max_sequences = 8;
  return options;
}

HostRows host(const std::vector<std::uint16_t>& rows, std::size_t first_token) {
  return {reinterpret_cast<const std::byte*>(rows.data() + first_token * kDim), kDim * 2UL, 0};
}

Status append(Pool* pool, std::uint64_t sequence, const KvData& data, std::size_t first,
              std::uint32_t tokens) {
  return pool->append(sequence, 0, host(data.keys, first), host(data.values, first), tokens);
}

/// Output of dense attention, to the bit; empty with its status in `status` on failure.
std::vector<float> attend(Pool* pool, std::uint64_t sequence, const KvData& data, Status* status,
                          ColdPages cold = ColdPages::kRefuse) {
  const std::vector<std::uint16_t> queries = make_queries(data, kRows, 2.0, 17);
  std::vector<float> output(kRows * kDim);
  std::vector<float> lse(kRows);
  AttendRequest request;
  request.sequence = sequence;
  request.rows = kRows;
  request.query = std::as_bytes(std::span(queries));
  request.output = output;
  request.lse = lse;
  AttendOptions options;
  options.scale = 0.125F;
  options.cold = cold;
  *status = pool->attend(std::span(&request, 1), options);
  if (*status != Status::kOk) return {};
  output.insert(output.end(), lse.begin(), lse.end());
  return output;
}

void expect_attends(Pool* pool, std::uint64_t sequence, const KvData& data,
                    const std::vector<float>& expected) {
  Status status = Status::kOk;
  EXPECT_EQ(attend(pool, sequence, data, &status), expected) << pool->last_error();
}

void expect_cold(Pool* pool, std::uint64_t sequence, const KvData& data) {
  Status status = Status::kOk;
  (void)attend(pool, sequence, data, &status);
  EXPECT_EQ(status, Status::kColdPage);
}

/// Rows that best_codec() gives back on every device.
KvData make_data() {
  KvData data = make_kv(Shape::kTopics, kTokens + 64, kDim, kDim, 1);
  round_for_int8(&data);
  return data;
}

class PoolTranscodeTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    ASSERT_EQ(pool_->create_sequence(1), Status::kOk);
    ASSERT_EQ(append(pool_.get(), 1, data_, 0, kTokens), Status::kOk);
    Status status = Status::kOk;
    dense_ = attend(pool_.get(), 1, data_, &status);
    ASSERT_EQ(status, Status::kOk);
    codec_ = best_codec(*device_);
  }

  const KvData data_ = make_data();
  const std::shared_ptr<Device> device_ = open_or_throw(GetParam());
  std::uint8_t codec_ = NKV_CODEC_NONE;
  std::unique_ptr<Pool> pool_ = create_or_throw(device_, one_head());
  std::vector<float> dense_;
};

TEST_P(PoolTranscodeTest, ASequenceComesBackAsItWas) {
  const PoolUsage warm = pool_->usage();
  std::vector<std::uint8_t> codecs = lossless_codecs(*device_);
  codecs.push_back(NKV_CODEC_INT8);
  for (const std::uint8_t codec : codecs) {
    ASSERT_EQ(pool_->transcode(1, codec), Status::kOk) << pool_->last_error();
    const PoolUsage cold = pool_->usage();
    EXPECT_EQ(cold.pages, warm.pages);
    EXPECT_LT(cold.page_bytes, warm.page_bytes);
    expect_cold(pool_.get(), 1, data_);
    std::uint64_t pages = 0;
    EXPECT_EQ(pool_->scrub(1, &pages), Status::kOk);
    EXPECT_EQ(pages, kTokens / 64);
  }
  ASSERT_EQ(pool_->transcode(1, NKV_CODEC_NONE), Status::kOk) << pool_->last_error();
  EXPECT_EQ(pool_->usage().page_bytes, warm.page_bytes);
  expect_attends(pool_.get(), 1, data_, dense_);
}

/// Another device that says less of its codecs.
class FewerCodecs : public Device {
 public:
  FewerCodecs(std::shared_ptr<Device> device, std::uint64_t codecs)
      : device_(std::move(device)), codecs_(codecs) {}
  std::uint64_t read_csr(std::uint32_t offset) override {
    return offset == NKV_REG_CODECS ? codecs_ : device_->read_csr(offset);
  }
  void write_csr(std::uint32_t offset, std::uint64_t value) override {
    device_->write_csr(offset, value);
  }
  std::span<std::byte> memory() override { return device_->memory(); }
  Status wait(std::uint64_t* epoch, std::chrono::nanoseconds timeout) override {
    return device_->wait(epoch, timeout);
  }

 private:
  std::shared_ptr<Device> device_;
  std::uint64_t codecs_;
};

TEST_P(PoolTranscodeTest, ACodecThatTheDeviceLacksIsNamed) {
  constexpr std::uint64_t kNoneAndInt8 = 1 << NKV_CODEC_NONE | 1 << NKV_CODEC_INT8;
  ASSERT_EQ(pool_->transcode(1, NKV_CODEC_INT4), Status::kOk) << pool_->last_error();
  pool_.reset();
  std::string reason;
  const auto few =
      std::make_shared<FewerCodecs>(device_, kNoneAndInt8 << NKV_REG_CODECS_BUILT_SHIFT |
                                                 kNoneAndInt8 << NKV_REG_CODECS_READ_SHIFT);
  ASSERT_EQ(Pool::open(few, one_head(), &pool_, &reason), Status::kOk) << reason;
  EXPECT_EQ(pool_->transcode(1, NKV_CODEC_FP8), Status::kUnsupported);
  EXPECT_EQ(pool_->last_error(),
            "transcoding sequence 1: this device builds no pages of codec 6 (FP8); take one of "
            "those that it does: 0 (NONE), 4 (INT8)");
  const std::string not_read =
      ", page 0: this device reads no pages of codec 5 (INT4); open the pool on one that does, and "
      "transcode it there to one of: 0 (NONE), 4 (INT8)";
  EXPECT_EQ(pool_->transcode(1, NKV_CODEC_NONE), Status::kUnsupported);
  EXPECT_EQ(pool_->last_error(), "transcoding sequence 1, layer 0, KV head 0" + not_read);
  Status status = Status::kOk;
  (void)attend(pool_.get(), 1, data_, &status, ColdPages::kDecode);
  EXPECT_EQ(status, Status::kUnsupported);
  EXPECT_EQ(pool_->last_error(), "attending to sequence 1, layer 0, KV head 0, decoded" + not_read);
  (void)attend(pool_.get(), 1, data_, &status, ColdPages::kSkip);
  EXPECT_EQ(status, Status::kOk) << pool_->last_error();
  ASSERT_EQ(pool_->create_sequence(2), Status::kOk);
  ASSERT_EQ(append(pool_.get(), 2, data_, 0, kTokens), Status::kOk);
  EXPECT_EQ(pool_->transcode(2, NKV_CODEC_INT8), Status::kOk) << pool_->last_error();
  EXPECT_EQ(pool_->transcode(2, NKV_CODEC_NONE), Status::kOk) << pool_->last_error();
}

TEST_P(PoolTranscodeTest, ForksFollowTheirSharedPages) {
  ASSERT_EQ(pool_->fork(1, 2, kTokens), Status::kOk);
  ASSERT_EQ(pool_->transcode(2, codec_), Status::kOk) << pool_->last_error();
  EXPECT_EQ(pool_->usage().pages, kTokens / 64);
  expect_cold(pool_.get(), 1, data_);
  ASSERT_EQ(pool_->transcode(1, NKV_CODEC_NONE), Status::kOk) << pool_->last_error();
  expect_attends(pool_.get(), 2, data_, dense_);
  ASSERT_EQ(pool_->drop(1), Status::kOk);
  expect_attends(pool_.get(), 2, data_, dense_);
  ASSERT_EQ(pool_->drop(2), Status::kOk);
  EXPECT_EQ(pool_->usage().pages, 0U);
}

TEST_P(PoolTranscodeTest, OnlyWhatIsColdIsWarmed) {
  ASSERT_EQ(pool_->transcode(1, codec_), Status::kOk);
  ASSERT_EQ(append(pool_.get(), 1, data_, kTokens, 64), Status::kOk);
  ASSERT_EQ(pool_->transcode(1, NKV_CODEC_NONE), Status::kOk);
  const std::uint64_t commands = pool_->stats().commands;
  ASSERT_EQ(pool_->transcode(1, NKV_CODEC_NONE), Status::kOk);
  EXPECT_EQ(pool_->stats().commands, commands) << "a warm sequence was rewritten";
  std::uint32_t tokens = 0;
  ASSERT_EQ(pool_->tokens(1, 0, &tokens), Status::kOk);
  EXPECT_EQ(tokens, kTokens + 64);
}

TEST_P(PoolTranscodeTest, SaysWhatItCannotDo) {
  EXPECT_EQ(pool_->transcode(9, NKV_CODEC_NONE), Status::kNotFound);
  EXPECT_EQ(pool_->transcode(1, NKV_CODEC_FP8 + 1), Status::kBadArgument);
  KvData infinite = data_;
  infinite.keys[70UL * kDim] = 0x7F80;  // In the second page.
  ASSERT_EQ(pool_->create_sequence(3), Status::kOk);
  ASSERT_EQ(append(pool_.get(), 3, infinite, 0, kTokens), Status::kOk);
  const PoolUsage before = pool_->usage();
  EXPECT_EQ(pool_->transcode(3, NKV_CODEC_INT8), Status::kBadPage);
  EXPECT_EQ(pool_->usage().pages, before.pages) << "a page was lost or left behind";
  if (lossless_codecs(*device_).empty()) GTEST_SKIP() << kNoLosslessCodec;
  ASSERT_EQ(pool_->transcode(3, codec_), Status::kOk) << pool_->last_error();
}

INSTANTIATE_TEST_SUITE_P(Devices, PoolTranscodeTest, testing::ValuesIn(device_uris()), device_name);

/// A pool over a file, so that it can be taken up again.
class PoolRestartTest : public testing::Test {
 protected:
  void SetUp() override {
    file_ = std::filesystem::temp_directory_path() /
            ("nearkv_pool_transcode_" + std::to_string(::getpid()));
    start(/*create=*/true);
    ASSERT_EQ(pool_->create_sequence(1), Status::kOk);
    ASSERT_EQ(append(pool_.get(), 1, data_, 0, kTokens), Status::kOk);
    Status status = Status::kOk;
    dense_ = attend(pool_.get(), 1, data_, &status);
  }
  void TearDown() override {
    pool_.reset();
    device_.reset();
    std::filesystem::remove(file_);
  }

  void start(bool create) {
    pool_.reset();
    device_.reset();
    device_ = open_or_throw("cpu:" + file_.string() + "?memory=32MiB&threads=2");
    std::string reason;
    ASSERT_EQ(create ? Pool::create(device_, one_head(), &pool_, &reason)
                     : Pool::open(device_, one_head(), &pool_, &reason),
              Status::kOk)
        << reason;
  }

  const KvData data_ = make_kv(Shape::kTopics, kTokens, kDim, kDim, 1);
  std::filesystem::path file_;
  std::shared_ptr<Device> device_;
  std::unique_ptr<Pool> pool_;
  std::vector<float> dense_;
};

TEST_F(PoolRestartTest, ColdPagesAreFoundAgain) {
  ASSERT_EQ(pool_->transcode(1, NKV_CODEC_PLANES_ZSTD), Status::kOk);
  const PoolUsage before = pool_->usage();
  start(/*create=*/false);
  EXPECT_EQ(pool_->usage().pages, before.pages);
  EXPECT_EQ(pool_->usage().page_bytes, before.page_bytes);
  ASSERT_EQ(pool_->transcode(1, NKV_CODEC_NONE), Status::kOk) << pool_->last_error();
  expect_attends(pool_.get(), 1, data_, dense_);
}

// A crash between publishing new pages and freeing old ones leaves some pages twice.
TEST_F(PoolRestartTest, APageInBothSlotsIsTakenUpOnce) {
  const std::vector<std::byte> before(device_->memory().begin(), device_->memory().end());
  const PoolUsage warm = pool_->usage();
  ASSERT_EQ(pool_->transcode(1, NKV_CODEC_PLANES_LZ4), Status::kOk);
  std::size_t revived = 0;
  for (std::size_t at = 0; at < before.size(); at += NKV_PAGE_GRAIN_BYTES) {
    nkv_page_header header{};
    std::memcpy(&header, before.data() + at, sizeof(header));
    if (header.magic != NKV_PAGE_MAGIC || header.state != NKV_PAGE_STATE_CLOSED) continue;
    std::copy_n(before.begin() + static_cast<std::ptrdiff_t>(at), sizeof(header),
                device_->memory().begin() + static_cast<std::ptrdiff_t>(at));
    ++revived;
  }
  ASSERT_EQ(revived, warm.pages);
  start(/*create=*/false);
  EXPECT_EQ(pool_->usage().pages, warm.pages);
  std::uint64_t pages = 0;
  EXPECT_EQ(pool_->scrub(1, &pages), Status::kOk);
  ASSERT_EQ(pool_->transcode(1, NKV_CODEC_NONE), Status::kOk) << pool_->last_error();
  expect_attends(pool_.get(), 1, data_, dense_);
  ASSERT_EQ(pool_->drop(1), Status::kOk);
  EXPECT_EQ(pool_->usage().pages, 0U);
}

}  // namespace
}  // namespace nearkv::test
