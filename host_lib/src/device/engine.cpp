#include "device/engine.hpp"

#include <chrono>
#include <cstring>
#include <new>

namespace nearkv {

Engine::Engine(Workers* workers)
    : workers_(workers), scratch_(workers->size()), transcoders_(workers->size()) {}

namespace {

/// A NOP holds nothing but its tag.
Outcome no_operation(std::span<const std::byte> command) {
  constexpr std::size_t kTag = offsetof(nkv_attend_command, tag);
  for (std::size_t i = 1; i < command.size(); ++i) {
    const bool is_tag = i >= kTag && i < kTag + sizeof(nkv_attend_command::tag);
    if (!is_tag && command[i] != std::byte{0}) return bad_field(i);
  }
  return {};
}

}  // namespace

template <typename Command>
Outcome Engine::run(std::span<const std::byte> bytes,
                    std::uint8_t (*check)(const Command*, std::uint64_t*), Handler<Command> handler,
                    const Window& window, nkv_completion* completion) {
  Command command;
  static_assert(sizeof(command) == NKV_COMMAND_BYTES);
  std::memcpy(&command, bytes.data(), sizeof(command));
  std::uint64_t detail = 0;
  if (const std::uint8_t status = check(&command, &detail); status != NKV_STATUS_OK) {
    return {static_cast<Status>(status), detail};
  }
  return (this->*handler)(command, window, completion);
}

Outcome Engine::dispatch(std::span<const std::byte, NKV_COMMAND_BYTES> command,
                         const Window& window, nkv_completion* completion) {
  switch (static_cast<std::uint8_t>(command[0])) {
    case NKV_OPCODE_NOP:
      return no_operation(command);
    case NKV_OPCODE_APPEND:
      return run(command, nkv_check_append_command, &Engine::append, window, completion);
    case NKV_OPCODE_READ:
      return run(command, nkv_check_read_command, &Engine::read, window, completion);
    case NKV_OPCODE_TOPK:
      return run(command, nkv_check_topk_command, &Engine::top_k, window, completion);
    case NKV_OPCODE_ATTEND:
      return run(command, nkv_check_attend_command, &Engine::attend, window, completion);
    case NKV_OPCODE_GATHER:
      return run(command, nkv_check_gather_command, &Engine::gather, window, completion);
    case NKV_OPCODE_SCRUB:
    case NKV_OPCODE_ERASE:
      return run(command, nkv_check_pages_command, &Engine::maintain, window, completion);
    case NKV_OPCODE_TRANSCODE:
    case NKV_OPCODE_COPY:
      return run(command, nkv_check_pages_command, &Engine::move, window, completion);
    default:
      return {Status::kBadOpcode, 0};
  }
}

void Engine::execute(std::span<const std::byte, NKV_COMMAND_BYTES> command, const Window& window,
                     nkv_completion* completion) {
  const auto start = std::chrono::steady_clock::now();
  *completion = {};
  std::memcpy(&completion->tag, command.data() + offsetof(nkv_attend_command, tag),
              sizeof(completion->tag));
  Outcome outcome;
  try {
    outcome = dispatch(command, window, completion);
  } catch (const std::bad_alloc&) {
    outcome = {Status::kInternal, 0};
  }
  completion->status = static_cast<std::uint8_t>(outcome.status);
  completion->detail = outcome.detail;
  const auto spent = std::chrono::steady_clock::now() - start;
  completion->ticks = static_cast<std::uint64_t>(
      std::chrono::duration_cast<std::chrono::nanoseconds>(spent).count());
}

}  // namespace nearkv
