// The command decoder: any 64 bytes complete with a status of the contract and touch nothing but
// the window.
#include <array>
#include <cstdlib>
#include <cstring>

#include "small_device.hpp"
#include "target.hpp"

int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  static nearkv::test::SmallDevice device;
  std::array<std::byte, NKV_COMMAND_BYTES> command{};
  if (size != 0) std::memcpy(command.data(), data, std::min(size, command.size()));
  device.restore();
  const nkv_completion completion = device.bench().run(command);
  if (completion.status > NKV_STATUS_INTERNAL) std::abort();
  if (completion.status == NKV_STATUS_INTERNAL) std::abort();
  return 0;
}

namespace nearkv::test {

const char* const mutation_fault = "mutated command";
const int mutation_runs = 40000;

std::vector<std::vector<std::uint8_t>> corpus() {
  SmallDevice device;
  std::vector<std::vector<std::uint8_t>> inputs;
  for (const auto* const commands : {&device.commands(), &device.cold_commands()}) {
    for (const PageCommand& command : *commands) {
      const auto* const bytes = reinterpret_cast<const std::uint8_t*>(command.bytes.data());
      inputs.emplace_back(bytes, bytes + command.bytes.size());
    }
  }
  nkv_append_command append{};
  append.opcode = NKV_OPCODE_APPEND;
  append.head_dim = append.value_dim = 16;
  append.tokens = NKV_PAGE_TOKENS;
  append.page_list = device.list().page_list;
  append.key_stride = append.value_stride = 32;
  const auto* const bytes = reinterpret_cast<const std::uint8_t*>(&append);
  inputs.emplace_back(bytes, bytes + sizeof(append));
  return inputs;
}

}  // namespace nearkv::test
