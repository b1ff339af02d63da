#include "any_command.hpp"

#include <array>
#include <bit>
#include <iterator>
#include <limits>

#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

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
  command.top_k = static_cast<std::uint16_t>(test::pick(random, 1, NKV_MAX_TOP_K));
  // Half of them in a mode that may run.
  command.mode = static_cast<std::uint8_t>(test::pick(random, 0, NKV_SELECT_INDEXER));
  if (random() % 2 == 0) command.mode = NKV_SELECT_FULL;
  if (random() % 4 == 0) command.mode = NKV_SELECT_INDEXER;
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
  command.mode = NKV_ATTEND_MODE_DENSE;
  if (random() % 4 == 0) {
    command.mode = static_cast<std::uint8_t>(test::pick(random, 0, NKV_ATTEND_MODE_BOUNDED));
  }
  constexpr float kCaps[] = {0.0F,
                             -0.0F,
                             30.0F,
                             -1.0F,
                             std::numeric_limits<float>::denorm_min(),
                             std::numeric_limits<float>::infinity()};
  command.soft_cap = kCaps[random() % 2 == 0 ? 0 : random() % std::size(kCaps)];
  command.error = std::bit_cast<float>(static_cast<std::uint32_t>(random()));
  return std::bit_cast<Bytes>(command);
}

Bytes any_append(test::Random& random) {
  nkv_append_command command{};
  command.opcode = NKV_OPCODE_APPEND;
  if (random() % 2 == 0) command.flags = NKV_APPEND_FLAG_KEY_SCALES;
  if (random() % 8 == 0) command.flags |= NKV_APPEND_FLAG_CODES;
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
    command.planes = static_cast<std::uint8_t>(test::pick(random, 0, NKV_KEY_CODE_PLANES));
  }
  if (random() % 8 == 0) command.flags = NKV_READ_FLAG_CODES;
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

constexpr std::array<AnyCommand, 7> kKinds = {any_nop,   any_append, any_topk,  any_attend,
                                              any_pages, any_read,   any_gather};

}  // namespace

std::span<const AnyCommand> command_kinds() { return kKinds; }

Bytes any_command(test::Random& random) { return kKinds[random() % kKinds.size()](random); }

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

}  // namespace nearkv::rtl_test
