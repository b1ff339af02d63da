// nkv_command_check against the contract's own checkers, this build's limits and the window, in
// this order, on valid commands, commands with one wrong byte or number, and any bytes.
#include <gtest/gtest.h>

#include <bit>
#include <cstring>
#include <map>

#include "Vnkv_command_check.h"
#include "any_command.hpp"
#include "expected_verdict.hpp"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

/// That a verdict takes, of a command of four ranges.
constexpr unsigned kMostCycles = 10;

class CommandCheckTest : public ::testing::Test {
 protected:
  CommandCheckTest() {
    check_.reset();
    set_window(kWindowBytes);
  }

  void set_window(std::uint64_t bytes) {
    check_->command_domain_window_bytes_i = window_bytes_ = bytes;
  }

  void expect_contract(const Bytes& bytes) {
    std::memcpy(check_->command_command_i.data(), bytes.data(), bytes.size());
    check_->valid_i = 1;
    ASSERT_TRUE(check_.tick_until([&] { return check_->done_o != 0; }, kMostCycles));
    check_->valid_i = 0;
    check_.tick();
    const model::Verdict verdict = expected_verdict(bytes, window_bytes_);
    ++seen_[verdict.status];
    ASSERT_EQ(int{check_->verdict_status_o}, int{verdict.status}) << "opcode " << int{bytes[0]};
    ASSERT_EQ(check_->verdict_detail_o, verdict.detail) << "opcode " << int{bytes[0]};
  }

  unsigned seen(std::uint8_t status) { return seen_[status]; }

  Simulation<Vnkv_command_check> check_;

 private:
  std::uint64_t window_bytes_ = 0;
  std::map<std::uint8_t, unsigned> seen_;
};

TEST_F(CommandCheckTest, JudgesCommandsOfEveryKind) {
  for (const AnyCommand any_of_kind : command_kinds()) {
    test::Random random = test::case_random(1);
    for (unsigned i = 0; i < 20000; ++i) {
      expect_contract(any_of_kind(random));
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(seen(NKV_STATUS_OK), 20000u);
  EXPECT_GT(seen(NKV_STATUS_BAD_FIELD), 1000u);
  EXPECT_GT(seen(NKV_STATUS_ADDRESS_FAULT), 1000u);
  EXPECT_GT(seen(NKV_STATUS_UNSUPPORTED), 1000u);
}

TEST_F(CommandCheckTest, FindsOneWrongByteInEachPlace) {
  for (const AnyCommand any_of_kind : command_kinds()) {
    test::Random random = test::case_random(2);
    for (unsigned i = 0; i < 20000; ++i) {
      Bytes bytes = any_of_kind(random);
      bytes[1 + i % (bytes.size() - 1)] ^= static_cast<std::uint8_t>(1u << random() % 8);
      expect_contract(bytes);
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(seen(NKV_STATUS_BAD_FIELD), 20000u);
}

TEST_F(CommandCheckTest, KnowsNoOpcodeThatTheContractDoesNotHave) {
  for (unsigned opcode = NKV_OPCODE_COPY + 1; opcode < 256; ++opcode) {
    expect_contract({static_cast<std::uint8_t>(opcode)});
  }
}

TEST_F(CommandCheckTest, JudgesMovesOfPages) {
  test::Random random = test::case_random(41);
  constexpr std::uint32_t kCounts[] = {0, 1, 2, kListPages - 1, kListPages, kListPages + 1};
  for (unsigned number = 0; number < 2000; ++number) {
    nkv_pages_command command{};
    command.opcode = number % 4 == 0 ? NKV_OPCODE_COPY : NKV_OPCODE_TRANSCODE;
    command.codec = static_cast<std::uint8_t>(test::pick(random, 0, NKV_CODEC_FP8 + 1));
    command.count = kCounts[test::pick(random, 0, 5)];
    command.slot_bytes = random() % 8 == 0 ? 0 : static_cast<std::uint32_t>(random());
    command.source = any_address(random, 8);
    command.destination = any_address(random, 8);
    command.result = any_address(random, 4);
    expect_contract(std::bit_cast<Bytes>(command));
  }
  for (const std::uint8_t status :
       {NKV_STATUS_OK, NKV_STATUS_BAD_FIELD, NKV_STATUS_ADDRESS_FAULT, NKV_STATUS_UNSUPPORTED}) {
    EXPECT_GT(seen(status), 50U) << int{status};
  }
}

// A product of rows and stride takes more bits than an address has by itself.
TEST_F(CommandCheckTest, RefusesStridesWhoseRowsSpanMoreThanAnAddressCanName) {
  nkv_append_command append{};
  append.opcode = NKV_OPCODE_APPEND;
  append.head_dim = append.value_dim = 128;
  append.dtype = NKV_DTYPE_BF16;
  append.key_stride = append.value_stride = 256;
  append.page_list = kWindowBytes / 2;
  test::Random random = test::case_random(43);
  constexpr std::uint64_t kNoStride = std::uint64_t{1} << 32;
  unsigned wrapped = 0;
  // A span of a power of two, and what a window would hold of it.
  for (unsigned log2 = 30; log2 < 53; ++log2) {
    for (unsigned i = 0; i < 200; ++i) {
      append.tokens = NKV_PAGE_TOKENS * test::pick(random, 1, kListPages);
      const std::uint64_t stride = (std::uint64_t{1} << log2) / (append.tokens - 1) + i % 2;
      if (stride >= kNoStride) continue;
      wrapped += log2 >= 50;
      nkv_append_command keys = append;
      keys.key_stride = static_cast<std::uint32_t>(stride);
      expect_contract(std::bit_cast<Bytes>(keys));
      nkv_append_command values = append;
      values.value_stride = static_cast<std::uint32_t>(stride);
      expect_contract(std::bit_cast<Bytes>(values));
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(wrapped, 100U);
  append.tokens = kListTokens;
  append.key_stride = ~std::uint32_t{0};
  expect_contract(std::bit_cast<Bytes>(append));
}

// The last byte of each range, at the window's end and one beyond.
TEST_F(CommandCheckTest, LetsRangesReachTheWindowsEndAndNoFurther) {
  nkv_append_command append{};
  append.opcode = NKV_OPCODE_APPEND;
  append.head_dim = 64;
  append.value_dim = 32;
  append.tokens = 2 * NKV_PAGE_TOKENS;
  append.key_stride = 200;
  append.value_stride = 100;
  append.dtype = NKV_DTYPE_BF16;
  const std::uint64_t keys_bytes = span_bytes(append.tokens, 200, 128);
  const std::uint64_t values_bytes = span_bytes(append.tokens, 100, 64);
  for (const unsigned beyond : {0u, 1u}) {
    nkv_append_command command = append;
    command.keys = kWindowBytes - keys_bytes + beyond;
    expect_contract(std::bit_cast<Bytes>(command));
    command.keys = 0;
    command.values = kWindowBytes - values_bytes + beyond;
    expect_contract(std::bit_cast<Bytes>(command));
    command.values = 0;
    command.page_list = kWindowBytes - 16 + 8 * beyond;
    expect_contract(std::bit_cast<Bytes>(command));
    // Gains stand behind the entries, and a window may end anywhere.
    command.flags = NKV_APPEND_FLAG_CODES;
    command.page_list = kWindowBytes - 16 - command.head_dim;
    set_window(kWindowBytes - beyond);
    expect_contract(std::bit_cast<Bytes>(command));
    set_window(kWindowBytes);
  }
  for (const unsigned beyond : {0u, NKV_BURST_BYTES + 0u}) {
    nkv_topk_command topk{};
    topk.opcode = NKV_OPCODE_TOPK;
    topk.mode = NKV_SELECT_FULL;
    topk.head_dim = 16;
    topk.scale = 1.0F;
    topk.top_k = 3;
    topk.group = 1;
    topk.query_dtype = NKV_DTYPE_FP32;
    topk.tokens = NKV_PAGE_TOKENS + 1;
    topk.result = kWindowBytes - std::uint64_t{3} * NKV_BURST_BYTES + beyond;
    expect_contract(std::bit_cast<Bytes>(topk));
    topk.result = 0;
    topk.query = kWindowBytes - NKV_BURST_BYTES + beyond / 16;
    expect_contract(std::bit_cast<Bytes>(topk));
    topk.query = 0;
    topk.page_list = kWindowBytes - 16 + beyond / 8;
    expect_contract(std::bit_cast<Bytes>(topk));
  }
  EXPECT_EQ(seen(NKV_STATUS_OK), 7u);
  EXPECT_EQ(seen(NKV_STATUS_ADDRESS_FAULT), 7u);
}

// One row over an empty list.
nkv_attend_command small_attend() {
  nkv_attend_command attend{};
  attend.opcode = NKV_OPCODE_ATTEND;
  attend.head_dim = attend.value_dim = 16;
  attend.group = 1;
  attend.scale = 1.0F;
  attend.query_dtype = NKV_DTYPE_BF16;
  return attend;
}

// Windows end anywhere: the last word of a result, not its burst, has to lie inside.
TEST_F(CommandCheckTest, LetsResultsEndWithTheWindow) {
  nkv_attend_command attend = small_attend();
  nkv_topk_command topk{};
  topk.opcode = NKV_OPCODE_TOPK;
  topk.mode = NKV_SELECT_FULL;
  topk.head_dim = 16;
  topk.scale = 1.0F;
  topk.top_k = 16;
  topk.query_dtype = NKV_DTYPE_BF16;
  for (std::uint8_t group = 1; group <= kRows; ++group) {
    attend.group = topk.group = group;
    attend.result = topk.result = NKV_BURST_BYTES;
    const std::uint64_t attend_end =
        attend.result + group * NKV_BURST_BYTES + NKV_BURST_BYTES + group * sizeof(float);
    const std::uint64_t topk_end =
        topk.result + 2 * group * NKV_BURST_BYTES + group * sizeof(std::uint32_t);
    for (const std::uint64_t missing : {std::uint64_t{0}, std::uint64_t{1}}) {
      set_window(attend_end - missing);
      expect_contract(std::bit_cast<Bytes>(attend));
      set_window(topk_end - missing);
      expect_contract(std::bit_cast<Bytes>(topk));
      // Behind its one row of results.
      nkv_topk_command indexer = topk;
      indexer.mode = NKV_SELECT_INDEXER;
      indexer.weights = topk_end / NKV_BURST_BYTES * NKV_BURST_BYTES + NKV_BURST_BYTES;
      set_window(indexer.weights + group * sizeof(float) - missing);
      expect_contract(std::bit_cast<Bytes>(indexer));
    }
  }
  EXPECT_EQ(seen(NKV_STATUS_OK), 3 * kRows);
  EXPECT_EQ(seen(NKV_STATUS_ADDRESS_FAULT), 3 * kRows);
}

// Nothing is read of it, so its place is nobody's business.
TEST_F(CommandCheckTest, LetsAnEmptyPageListLieAnywhere) {
  nkv_attend_command attend = small_attend();
  for (const std::uint64_t beyond : {std::uint64_t{8}, kWindowBytes, std::uint64_t{1} << 62}) {
    attend.page_list = kWindowBytes + beyond;
    for (attend.tokens = 0; attend.tokens < 2; ++attend.tokens) {
      expect_contract(std::bit_cast<Bytes>(attend));
    }
  }
  EXPECT_EQ(seen(NKV_STATUS_OK), 3u);
  EXPECT_EQ(seen(NKV_STATUS_ADDRESS_FAULT), 3u);
}

TEST_F(CommandCheckTest, KeepsItsVerdictUntilTheNextCommand) {
  expect_contract({255});
  check_->command_command_i[0] = NKV_OPCODE_NOP;
  check_.ticks(2 * kMostCycles);
  EXPECT_EQ(int{check_->verdict_status_o}, int{NKV_STATUS_BAD_OPCODE});
}

// A command that is taken back leaves nothing to the next one.
TEST_F(CommandCheckTest, ForgetsACommandThatIsTakenBack) {
  test::Random random = test::case_random(42);
  for (unsigned number = 0; number < 5000; ++number) {
    const Bytes bytes = any_command(random);
    std::memcpy(check_->command_command_i.data(), bytes.data(), bytes.size());
    check_->valid_i = 1;
    for (std::uint64_t i = random() % kMostCycles; i > 0 && check_->done_o == 0; --i) check_.tick();
    check_->valid_i = 0;
    check_.tick();
    ASSERT_EQ(check_->done_o, 0);
    expect_contract(any_command(random));
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace nearkv::rtl_test
