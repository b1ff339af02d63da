// nkv_command_check against the contract's own checkers, this build's limits and the window, in
// this order, on valid commands, commands with one wrong byte or number, and any bytes.
#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <cmath>
#include <cstring>
#include <iterator>
#include <limits>
#include <map>

#include "Vnkv_command_check_bench.h"
#include "domain.hpp"
#include "nkv_abi.h"
#include "scan_input.hpp"
#include "simulation.hpp"
#include "verdict.hpp"

namespace nearkv::rtl_test {
namespace {

using model::bad_field;
using model::burst_aligned;
using model::Verdict;
using Bytes = std::array<std::uint8_t, sizeof(nkv_append_command)>;

// This build's limits, as its LIMITS registers have them.
constexpr unsigned kChannels = 128;
constexpr unsigned kRows = 8;

/// That a verdict takes, of a command of four ranges.
constexpr unsigned kMostCycles = 10;

constexpr std::uint64_t kWindowBytes = std::uint64_t{1} << 30;

template <typename Command>
Command as(const Bytes& bytes) {
  return std::bit_cast<Command>(bytes);
}

// What the bytes of the present window are.
std::uint64_t window_bytes = kWindowBytes;

Verdict in_window(std::uint64_t address, std::uint64_t bytes) {
  if (bytes == 0 || (bytes <= window_bytes && address <= window_bytes - bytes)) return {};
  return {NKV_STATUS_ADDRESS_FAULT, address};
}

Verdict first_failure(std::initializer_list<Verdict> verdicts) {
  for (const Verdict& verdict : verdicts) {
    if (!verdict.ok()) return verdict;
  }
  return {};
}

std::uint64_t span_bytes(std::uint64_t rows, std::uint64_t stride, std::uint64_t row_bytes) {
  return (rows - 1) * stride + row_bytes;
}

Verdict expected_nop(const Bytes& bytes) {
  for (std::size_t i = 1; i < bytes.size(); ++i) {
    if (i != 2 && i != 3 && bytes[i] != 0) return bad_field(i);
  }
  return {};
}

Verdict expected_pages(const Bytes& bytes) {
  const auto command = as<nkv_pages_command>(bytes);
  Verdict verdict;
  verdict.status = nkv_check_pages_command(&command, &verdict.detail);
  if (!verdict.ok()) return verdict;
  return in_window(command.source, std::uint64_t{command.count} * sizeof(nkv_page_entry));
}

Verdict expected_moved_pages(const Bytes& bytes) {
  const auto command = as<nkv_pages_command>(bytes);
  const bool transcodes = command.opcode == NKV_OPCODE_TRANSCODE;
  Verdict verdict;
  verdict.status = nkv_check_pages_command(&command, &verdict.detail);
  if (!verdict.ok()) return verdict;
  if (transcodes && command.slot_bytes == 0) {
    return bad_field(offsetof(nkv_pages_command, slot_bytes));
  }
  if (command.count > kListPages) {
    return bad_field(offsetof(nkv_pages_command, count));
  }
  if (transcodes && command.codec != NKV_CODEC_NONE && command.codec < NKV_CODEC_INT8) {
    return {NKV_STATUS_UNSUPPORTED, 0};
  }
  const std::uint64_t table_bytes = std::uint64_t{command.count} * sizeof(nkv_page_entry);
  const std::uint64_t sizes_bytes = transcodes ? command.count * sizeof(std::uint32_t) : 0;
  return first_failure({in_window(command.source, table_bytes),
                        in_window(command.destination, table_bytes),
                        in_window(command.result, sizes_bytes)});
}

Verdict expected_append(const Bytes& bytes) {
  const auto command = as<nkv_append_command>(bytes);
  Verdict verdict;
  verdict.status = nkv_check_append_command(&command, &verdict.detail);
  if (!verdict.ok()) return verdict;
  const bool is_bf16 = command.dtype == NKV_DTYPE_BF16;
  const bool has_values = command.v_form != NKV_ROW_FORM_NONE;
  if (has_values ? command.value_dim == 0 : command.value_dim > command.head_dim) {
    return bad_field(offsetof(nkv_append_command, value_dim));
  }
  if (command.dtype == NKV_DTYPE_FP32) return bad_field(offsetof(nkv_append_command, dtype));
  if (command.k_form == NKV_ROW_FORM_NONE || (command.k_form == NKV_ROW_FORM_DELTA4 && !is_bf16)) {
    return bad_field(offsetof(nkv_append_command, k_form));
  }
  if (command.v_form == NKV_ROW_FORM_DELTA4 && !is_bf16) {
    return bad_field(offsetof(nkv_append_command, v_form));
  }
  if (command.head_dim > kChannels) return bad_field(offsetof(nkv_append_command, head_dim));
  if (command.value_dim > kChannels) return bad_field(offsetof(nkv_append_command, value_dim));
  if (command.tokens > kListTokens) return bad_field(offsetof(nkv_append_command, tokens));
  const std::uint64_t element = nkv_element_bytes(command.dtype);
  const bool has_scales = (command.flags & NKV_APPEND_FLAG_KEY_SCALES) != 0;
  const std::uint64_t keys = span_bytes(command.tokens, command.key_stride,
                                        command.head_dim * element + (has_scales ? 4 : 0));
  const std::uint64_t values =
      span_bytes(command.tokens, command.value_stride, command.value_dim * element);
  return first_failure(
      {in_window(command.keys, keys), has_values ? in_window(command.values, values) : Verdict{},
       in_window(command.page_list, command.tokens / NKV_PAGE_TOKENS * sizeof(nkv_page_entry))});
}

bool is_query_dtype(std::uint8_t dtype) {
  return dtype == NKV_DTYPE_BF16 || dtype == NKV_DTYPE_FP16 || dtype == NKV_DTYPE_FP32;
}

template <typename Command>
Verdict expected_scan_limits(const Command& command) {
  if (command.tokens > kListTokens) return bad_field(offsetof(Command, tokens));
  if (command.group > kRows) return bad_field(offsetof(Command, group));
  if (!model::is_usable_scale(command.scale)) return bad_field(offsetof(Command, scale));
  return {};
}

template <typename Command>
Verdict expected_scan_addresses(const Command& command, std::uint64_t result_bytes) {
  return first_failure(
      {in_window(command.query, model::query_bytes(command)),
       in_window(command.page_list, model::list_entries(command) * sizeof(nkv_page_entry)),
       in_window(command.result, result_bytes)});
}

Verdict expected_topk(const Bytes& bytes) {
  const auto command = as<nkv_topk_command>(bytes);
  Verdict verdict;
  verdict.status = nkv_check_topk_command(&command, &verdict.detail);
  if (!verdict.ok()) return verdict;
  if (command.head_dim > kChannels) return bad_field(offsetof(nkv_topk_command, head_dim));
  verdict = expected_scan_limits(command);
  if (!verdict.ok()) return verdict;
  const bool is_indexer = command.mode == NKV_SELECT_INDEXER;
  if (!is_query_dtype(command.query_dtype) &&
      !(is_indexer && command.query_dtype == NKV_DTYPE_FP8_E4M3)) {
    return bad_field(offsetof(nkv_topk_command, query_dtype));
  }
  // INDEXER has a weight for each row of the query, and one row of results.
  const std::uint64_t weights = is_indexer ? command.group * sizeof(float) : 0;
  const std::uint64_t rows = is_indexer ? 1 : command.group;
  const std::uint64_t result_bytes =
      2 * burst_aligned(rows * command.top_k * sizeof(float)) + rows * sizeof(std::uint32_t);
  return first_failure({expected_scan_addresses(command, 0), in_window(command.weights, weights),
                        in_window(command.result, result_bytes)});
}

Verdict expected_attend(const Bytes& bytes) {
  const auto command = as<nkv_attend_command>(bytes);
  Verdict verdict;
  verdict.status = nkv_check_attend_command(&command, &verdict.detail);
  if (!verdict.ok()) return verdict;
  if (command.head_dim > kChannels) return bad_field(offsetof(nkv_attend_command, head_dim));
  if (command.value_dim > kChannels) return bad_field(offsetof(nkv_attend_command, value_dim));
  verdict = expected_scan_limits(command);
  if (!verdict.ok()) return verdict;
  if (!std::isfinite(command.soft_cap) || command.soft_cap < 0) {
    return bad_field(offsetof(nkv_attend_command, soft_cap));
  }
  if (!is_query_dtype(command.query_dtype)) {
    return bad_field(offsetof(nkv_attend_command, query_dtype));
  }
  const bool is_error_usable = command.error > 0.0F && command.error <= 1.0F;
  if (command.mode == NKV_ATTEND_MODE_BOUNDED && !is_error_usable) {
    return bad_field(offsetof(nkv_attend_command, error));
  }
  const bool is_short = (command.flags & NKV_ATTEND_FLAG_OUTPUT_BF16) != 0;
  const std::uint64_t output =
      std::uint64_t{command.group} * command.value_dim * (is_short ? 2 : sizeof(float));
  const std::uint64_t numbers = command.group * sizeof(float);
  return expected_scan_addresses(command, burst_aligned(output) + burst_aligned(numbers) + numbers);
}

Verdict expected_read(const Bytes& bytes) {
  const auto command = as<nkv_read_command>(bytes);
  Verdict verdict;
  verdict.status = nkv_check_read_command(&command, &verdict.detail);
  if (!verdict.ok()) return verdict;
  if (command.planes != 0 && command.tensor != NKV_TENSOR_KEYS) {
    return bad_field(offsetof(nkv_read_command, planes));
  }
  if (std::uint64_t{command.first} + command.count > kListTokens) {
    return bad_field(offsetof(nkv_read_command, count));
  }
  return {};
}

Verdict expected_gather(const Bytes& bytes) {
  const auto command = as<nkv_gather_command>(bytes);
  Verdict verdict;
  verdict.status = nkv_check_gather_command(&command, &verdict.detail);
  if (!verdict.ok()) return verdict;
  if (command.tokens > kListTokens) return bad_field(offsetof(nkv_gather_command, tokens));
  return in_window(command.ids, command.count * sizeof(std::uint32_t));
}

Verdict expected(const Bytes& bytes) {
  switch (bytes[0]) {
    case NKV_OPCODE_NOP:
      return expected_nop(bytes);
    case NKV_OPCODE_SCRUB:
    case NKV_OPCODE_ERASE:
      return expected_pages(bytes);
    case NKV_OPCODE_COPY:
    case NKV_OPCODE_TRANSCODE:
      return expected_moved_pages(bytes);
    case NKV_OPCODE_APPEND:
      return expected_append(bytes);
    case NKV_OPCODE_READ:
      return expected_read(bytes);
    case NKV_OPCODE_GATHER:
      return expected_gather(bytes);
    case NKV_OPCODE_TOPK:
      return expected_topk(bytes);
    case NKV_OPCODE_ATTEND:
      return expected_attend(bytes);
    default:
      return {NKV_STATUS_BAD_OPCODE, 0};
  }
}

// An address at which a range of up to some MiB may lie, or end beyond the window, or wrap around.
std::uint64_t any_address(test::Random& random, std::uint64_t unit) {
  const std::uint64_t inside = random() % (kWindowBytes / 2) / unit * unit;
  const std::uint64_t near_end = kWindowBytes - unit * test::pick(random, 0, 4096);
  const std::uint64_t beyond = random() / unit * unit;
  switch (random() % 16) {
    case 0:
      return beyond;
    case 1:
      return near_end;
    default:
      return inside;
  }
}

std::uint16_t any_dim(test::Random& random) {
  return static_cast<std::uint16_t>(16 * test::pick(random, 1, random() % 8 == 0 ? 9 : 8));
}

template <typename Command>
void fill_scan(Command& command, test::Random& random) {
  command.tag = static_cast<std::uint16_t>(random());
  command.head_dim = any_dim(random);
  command.tokens = test::pick(random, 0, random() % 8 == 0 ? 2 * kListTokens : kListTokens);
  command.window = static_cast<std::uint32_t>(random());
  command.query = any_address(random, 4);
  command.page_list = any_address(random, 8);
  command.result = any_address(random, NKV_BURST_BYTES);
  constexpr float kScales[] = {0.125F,
                               -3.0F,
                               std::numeric_limits<float>::min(),
                               std::numeric_limits<float>::denorm_min(),
                               0.0F,
                               std::numeric_limits<float>::infinity(),
                               std::numeric_limits<float>::quiet_NaN()};
  command.scale = kScales[random() % 4 == 0 ? random() % std::size(kScales) : 0];
  command.sinks = static_cast<std::uint8_t>(random());
  command.group = static_cast<std::uint8_t>(test::pick(random, 1, random() % 8 == 0 ? 9 : kRows));
  command.query_dtype = static_cast<std::uint8_t>(test::pick(random, 0, 2));
  command.z = static_cast<std::uint8_t>(random());
}

Bytes any_topk(test::Random& random) {
  nkv_topk_command command{};
  fill_scan(command, random);
  command.opcode = NKV_OPCODE_TOPK;
  command.planes = static_cast<std::uint8_t>(test::pick(random, 0, NKV_KEY_PLANES));
  command.top_k = static_cast<std::uint16_t>(test::pick(random, 1, NKV_MAX_TOP_K));
  command.mode = static_cast<std::uint8_t>(test::pick(random, 0, NKV_SELECT_DIGEST));
  command.candidates = static_cast<std::uint16_t>(test::pick(random, 0, NKV_MAX_CANDIDATES));
  if (random() % 8 == 0) command.query_dtype = NKV_DTYPE_FP8_E4M3;
  command.weights = any_address(random, 4);
  return std::bit_cast<Bytes>(command);
}

Bytes any_attend(test::Random& random) {
  nkv_attend_command command{};
  fill_scan(command, random);
  command.opcode = NKV_OPCODE_ATTEND;
  if (random() % 2 == 0) command.flags = NKV_ATTEND_FLAG_OUTPUT_BF16;
  command.value_dim = any_dim(random);
  command.top_k = static_cast<std::uint16_t>(test::pick(random, 0, NKV_MAX_TOP_K));
  command.mode = static_cast<std::uint8_t>(test::pick(random, 0, NKV_ATTEND_MODE_BOUNDED));
  constexpr float kCaps[] = {0.0F,
                             -0.0F,
                             30.0F,
                             -1.0F,
                             std::numeric_limits<float>::denorm_min(),
                             std::numeric_limits<float>::infinity()};
  command.soft_cap = kCaps[random() % 2 == 0 ? 0 : random() % std::size(kCaps)];
  constexpr float kErrors[] = {0.05F,
                               0.0F,
                               -0.0F,
                               -0.1F,
                               1.0F,
                               1.0000001F,
                               std::numeric_limits<float>::denorm_min(),
                               std::numeric_limits<float>::infinity(),
                               std::numeric_limits<float>::quiet_NaN()};
  command.error = kErrors[random() % 2 == 0 ? 0 : random() % std::size(kErrors)];
  command.seed = static_cast<std::uint32_t>(random());
  return std::bit_cast<Bytes>(command);
}

Bytes any_append(test::Random& random) {
  nkv_append_command command{};
  command.opcode = NKV_OPCODE_APPEND;
  if (random() % 2 == 0) command.flags = NKV_APPEND_FLAG_KEY_SCALES;
  command.tag = static_cast<std::uint16_t>(random());
  command.head_dim = any_dim(random);
  command.value_dim = random() % 8 == 0 ? std::uint16_t{0} : any_dim(random);
  command.tokens = NKV_PAGE_TOKENS * test::pick(random, 1, random() % 8 == 0 ? 520 : 64);
  command.first_token = NKV_PAGE_TOKENS * test::pick(random, 0, 1000);
  command.keys = any_address(random, 1);
  command.values = any_address(random, 1);
  command.page_list = any_address(random, 8);
  command.sequence_id = random();
  command.key_stride = test::pick(random, 1, 4096);
  command.value_stride = test::pick(random, 0, 4096);
  command.dtype = NKV_DTYPE_BF16;
  if (random() % 2 == 0) command.dtype = static_cast<std::uint8_t>(test::pick(random, 0, 5));
  command.k_form = static_cast<std::uint8_t>(test::pick(random, 0, NKV_ROW_FORM_NONE));
  command.v_form = static_cast<std::uint8_t>(test::pick(random, 0, NKV_ROW_FORM_NONE));
  return std::bit_cast<Bytes>(command);
}

Bytes any_pages(test::Random& random) {
  nkv_pages_command command{};
  command.opcode = NKV_OPCODE_SCRUB;
  if (random() % 2 == 0) command.opcode = NKV_OPCODE_ERASE;
  command.tag = static_cast<std::uint16_t>(random());
  command.count = test::pick(random, 1, 4096);
  command.source = any_address(random, 8);
  return std::bit_cast<Bytes>(command);
}

Bytes any_read(test::Random& random) {
  nkv_read_command command{};
  command.opcode = NKV_OPCODE_READ;
  command.tag = static_cast<std::uint16_t>(random());
  command.tensor = static_cast<std::uint8_t>(test::pick(random, 0, NKV_TENSOR_BOTH));
  if (random() % 4 == 0) {
    command.planes = static_cast<std::uint8_t>(test::pick(random, 0, NKV_KEY_PLANES));
  }
  command.first = test::pick(random, 0, kListTokens);
  command.count = test::pick(random, 1, random() % 4 == 0 ? NKV_MAX_TOKENS : kListTokens / 2);
  command.page_list = any_address(random, 8);
  command.result = any_address(random, NKV_BURST_BYTES);
  return std::bit_cast<Bytes>(command);
}

Bytes any_gather(test::Random& random) {
  nkv_gather_command command{};
  command.opcode = NKV_OPCODE_GATHER;
  command.tag = static_cast<std::uint16_t>(random());
  command.tensor = static_cast<std::uint8_t>(test::pick(random, 0, NKV_TENSOR_BOTH));
  command.tokens = test::pick(random, 1, random() % 8 == 0 ? 2 * kListTokens : kListTokens);
  command.count = test::pick(random, 1, NKV_MAX_TOKENS);
  command.ids = any_address(random, 4);
  command.page_list = any_address(random, 8);
  command.result = any_address(random, NKV_BURST_BYTES);
  return std::bit_cast<Bytes>(command);
}

Bytes any_nop(test::Random& random) {
  Bytes bytes{};
  bytes[2] = static_cast<std::uint8_t>(random());
  bytes[3] = static_cast<std::uint8_t>(random());
  return bytes;
}

class CommandCheckTest : public ::testing::Test {
 protected:
  CommandCheckTest() {
    check_.reset();
    set_window(kWindowBytes);
  }

  void set_window(std::uint64_t bytes) { check_->window_bytes_i = window_bytes = bytes; }

  void expect_contract(const Bytes& bytes) {
    std::memcpy(check_->command_i.data(), bytes.data(), bytes.size());
    check_->valid_i = 1;
    ASSERT_TRUE(check_.tick_until([&] { return check_->done_o != 0; }, kMostCycles));
    check_->valid_i = 0;
    check_.tick();
    const Verdict verdict = expected(bytes);
    ++seen_[verdict.status];
    ASSERT_EQ(int{check_->status_o}, int{verdict.status}) << "opcode " << int{bytes[0]};
    ASSERT_EQ(check_->detail_o, verdict.detail) << "opcode " << int{bytes[0]};
  }

  unsigned seen(std::uint8_t status) { return seen_[status]; }

  Simulation<Vnkv_command_check_bench> check_;

 private:
  std::map<std::uint8_t, unsigned> seen_;
};

constexpr std::array kKinds = {any_nop,   any_append, any_topk,  any_attend,
                               any_pages, any_read,   any_gather};

Bytes any_of_them(test::Random& random) { return kKinds[random() % kKinds.size()](random); }

TEST_F(CommandCheckTest, JudgesCommandsOfEveryKind) {
  for (const auto& any_command : kKinds) {
    test::Random random = test::case_random(1);
    for (unsigned i = 0; i < 20000; ++i) {
      expect_contract(any_command(random));
      if (HasFatalFailure()) return;
    }
  }
  EXPECT_GT(seen(NKV_STATUS_OK), 20000u);
  EXPECT_GT(seen(NKV_STATUS_BAD_FIELD), 1000u);
  EXPECT_GT(seen(NKV_STATUS_ADDRESS_FAULT), 1000u);
}

TEST_F(CommandCheckTest, FindsOneWrongByteInEachPlace) {
  for (const auto& any_command : kKinds) {
    test::Random random = test::case_random(2);
    for (unsigned i = 0; i < 20000; ++i) {
      Bytes bytes = any_command(random);
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
  }
  for (const unsigned beyond : {0u, NKV_BURST_BYTES + 0u}) {
    nkv_topk_command topk{};
    topk.opcode = NKV_OPCODE_TOPK;
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
  EXPECT_EQ(seen(NKV_STATUS_OK), 6u);
  EXPECT_EQ(seen(NKV_STATUS_ADDRESS_FAULT), 6u);
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
  check_->command_i[0] = NKV_OPCODE_NOP;
  check_.ticks(2 * kMostCycles);
  EXPECT_EQ(int{check_->status_o}, int{NKV_STATUS_BAD_OPCODE});
}

// A command that is taken back leaves nothing to the next one.
TEST_F(CommandCheckTest, ForgetsACommandThatIsTakenBack) {
  test::Random random = test::case_random(42);
  for (unsigned number = 0; number < 5000; ++number) {
    const Bytes bytes = any_of_them(random);
    std::memcpy(check_->command_i.data(), bytes.data(), bytes.size());
    check_->valid_i = 1;
    for (std::uint64_t i = random() % kMostCycles; i > 0 && check_->done_o == 0; --i) check_.tick();
    check_->valid_i = 0;
    check_.tick();
    ASSERT_EQ(check_->done_o, 0);
    expect_contract(any_of_them(random));
    if (HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace nearkv::rtl_test
