// Page lists without room: whoever takes up the pool after a crash has room for every sequence.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "nearkv/pool.hpp"
#include "support/checksum.hpp"
#include "support/devices.hpp"
#include "support/layer_rows.hpp"

namespace nearkv::test {
namespace {

/// A device that, once it is told to, keeps what its memory holds then and each time a completion
/// has been read: what a crash at the worst moment would leave.
class Photographed : public Device {
 public:
  explicit Photographed(std::unique_ptr<Device> device) : device_(std::move(device)) {}

  std::uint64_t read_csr(std::uint32_t offset) override { return device_->read_csr(offset); }
  void write_csr(std::uint32_t offset, std::uint64_t value) override {
    device_->write_csr(offset, value);
    if (offset == NKV_REG_CQ_HEAD(0) && !picture_.empty()) take_picture();
  }
  void take_picture() { picture_.assign(memory().begin(), memory().end()); }
  std::span<std::byte> memory() override { return device_->memory().first(kBytes); }
  Status wait(std::uint64_t* epoch, std::chrono::nanoseconds timeout) override {
    return device_->wait(epoch, timeout);
  }

  /// Makes the memory what it was in the last picture.
  void crash() { std::ranges::copy(picture_, memory().begin()); }

 private:
  static constexpr std::size_t kBytes = 16 << 20;

  std::unique_ptr<Device> device_;
  std::vector<std::byte> picture_;
};

/// The smallest blocks of the lists' area have room for 32 entries.
constexpr std::size_t kPagesOfABlock = 32;
constexpr std::size_t kTokensOfABlock = kPagesOfABlock * NKV_PAGE_TOKENS;

class PoolListsTest : public testing::TestWithParam<std::string> {
 protected:
  void SetUp() override {
    device_ = std::make_shared<Photographed>(open_or_throw(GetParam()));
    options_.max_sequences = 512;
    pool_ = create_or_throw(device_, options_);
  }

  void crash_and_open() {
    pool_.reset();
    device_->crash();
    std::string reason;
    ASSERT_EQ(Pool::open(device_, options_, &pool_, &reason), Status::kOk) << reason;
  }

  /// Until no list can be begun: sequences from `first` on, each of so many tokens.
  void fill(std::uint64_t first, std::size_t tokens) {
    const LayerRows rows(tokens, 2);
    Status status = Status::kOk;
    for (end_ = first; status == Status::kOk; ++end_) {
      ASSERT_EQ(pool_->create_sequence(end_), Status::kOk) << pool_->last_error();
      status = append(pool_.get(), end_, 0, rows, 0, tokens);
    }
    ASSERT_EQ(status, Status::kPoolFull);
    ASSERT_NE(pool_->last_error().find("page lists"), std::string::npos) << pool_->last_error();
    --end_;
  }

  std::uint32_t tokens(std::uint64_t sequence, std::uint16_t layer) {
    std::uint32_t tokens = 0;
    EXPECT_EQ(pool_->tokens(sequence, layer, &tokens), Status::kOk) << pool_->last_error();
    return tokens;
  }

  /// Sequence 1 has a block's pages, and others all the other blocks.
  void make_full() {
    ASSERT_EQ(pool_->create_sequence(1), Status::kOk);
    ASSERT_EQ(append(pool_.get(), 1, 0, first_, 0, kTokensOfABlock), Status::kOk);
    fill(2, NKV_PAGE_TOKENS);
    device_->take_picture();
  }

  void expect_all() {
    EXPECT_EQ(tokens(1, 0), kTokensOfABlock);
    for (std::uint64_t sequence = 2; sequence < end_; ++sequence) {
      EXPECT_EQ(tokens(sequence, 0), NKV_PAGE_TOKENS) << sequence;
    }
    EXPECT_EQ(pool_->usage().damaged_pages, 0U);
  }

  LayerRows first_{kTokensOfABlock, 1};
  LayerRows more_{NKV_PAGE_TOKENS, 3};
  Pool::Options options_ = small_pool();
  std::shared_ptr<Photographed> device_;
  std::unique_ptr<Pool> pool_;
  std::uint64_t end_ = 0;  ///< Of the sequences that have lists.
};

TEST_P(PoolListsTest, AnAppendThatTheyRefuseHasPublishedNothing) {
  make_full();
  EXPECT_EQ(append(pool_.get(), 1, 0, more_, 0, NKV_PAGE_TOKENS), Status::kPoolFull);
  EXPECT_NE(pool_->last_error().find("page lists"), std::string::npos) << pool_->last_error();
  crash_and_open();
  expect_all();
}

TEST_P(PoolListsTest, AnAppendThatFailsMovesNone) {
  make_full();
  ASSERT_EQ(pool_->drop(2), Status::kOk);
  std::uint64_t before = 0;
  std::uint64_t after = 0;
  std::uint32_t count = 0;
  ASSERT_EQ(pool_->page_list(1, 0, 0, &before, &count), Status::kOk);
  EXPECT_EQ(append(pool_.get(), 1, 0, more_, 0, NKV_PAGE_TOKENS), Status::kPoolFull);
  ASSERT_EQ(pool_->page_list(1, 0, 0, &after, &count), Status::kOk);
  EXPECT_EQ(after, before);
  EXPECT_EQ(count, kTokensOfABlock);
  // What the refused append had found of the room is there for others.
  ASSERT_EQ(pool_->create_sequence(1000), Status::kOk);
  EXPECT_EQ(append(pool_.get(), 1000, 0, more_, 0, NKV_PAGE_TOKENS), Status::kOk);
}

/// Makes the second pages of all lists of layer 0 the first of layer 1.
void spread_over_layers(std::span<std::byte> memory) {
  for (std::size_t at = 0; at < memory.size(); at += NKV_PAGE_GRAIN_BYTES) {
    nkv_page_header header{};
    std::memcpy(&header, &memory[at], sizeof(header));
    if (header.magic != NKV_PAGE_MAGIC || header.first_token != NKV_PAGE_TOKENS) continue;
    header.first_token = 0;
    header.layer = 1;
    const auto bytes = std::as_bytes(std::span(&header, 1));
    header.crc_cold = checksum(bytes.subspan(64, offsetof(nkv_page_header, crc_cold) - 64));
    std::memcpy(&memory[at], &header, sizeof(header));
  }
}

TEST_P(PoolListsTest, ThoseThatAreMadeUpAreCutAndCounted) {
  fill(1, 2 * NKV_PAGE_TOKENS);
  pool_.reset();
  spread_over_layers(device_->memory());
  std::string reason;
  ASSERT_EQ(Pool::open(device_, options_, &pool_, &reason), Status::kOk) << reason;
  std::size_t pages = 0;
  for (std::uint64_t sequence = 1; sequence < end_; ++sequence) {
    EXPECT_EQ(tokens(sequence, 0) + tokens(sequence, 1) == 0, sequence > end_ / 2) << sequence;
    pages += kHeads * (tokens(sequence, 0) + tokens(sequence, 1)) / NKV_PAGE_TOKENS;
  }
  EXPECT_EQ(pool_->usage().pages, pages);
  EXPECT_EQ(pool_->usage().damaged_pages + pages, (end_ - 1) * kHeads * 2);
}

INSTANTIATE_TEST_SUITE_P(Devices, PoolListsTest, testing::ValuesIn(device_uris()), device_name);

}  // namespace
}  // namespace nearkv::test
