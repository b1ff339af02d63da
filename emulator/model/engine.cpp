#include "engine.hpp"

#include <bit>
#include <cstring>

#include "commands.hpp"
#include "nkv_abi.h"

namespace nearkv::model {

namespace {

constexpr size_t kTagOffset = offsetof(nkv_append_command, tag);

Outcome no_operation(const Command& command) {
  for (size_t i = 1; i < command.size(); ++i) {
    const bool is_tag = i >= kTagOffset && i < kTagOffset + sizeof(uint16_t);
    if (!is_tag && command[i] != std::byte{0}) return failure(bad_field(i));
  }
  return {};
}

}  // namespace

uint8_t opcode_of(const Command& command) { return std::to_integer<uint8_t>(command[0]); }

uint16_t tag_of(const Command& command) {
  uint16_t tag;
  std::memcpy(&tag, command.data() + kTagOffset, sizeof(tag));
  return tag;
}

Outcome execute(const Domain& domain, const Command& command) {
  switch (opcode_of(command)) {
    case NKV_OPCODE_NOP:
      return no_operation(command);
    case NKV_OPCODE_APPEND:
      return append(domain, std::bit_cast<nkv_append_command>(command));
    case NKV_OPCODE_READ:
      return read(domain, std::bit_cast<nkv_read_command>(command));
    case NKV_OPCODE_TOPK:
      return topk(domain, std::bit_cast<nkv_topk_command>(command));
    case NKV_OPCODE_ATTEND:
      return attend(domain, std::bit_cast<nkv_attend_command>(command));
    case NKV_OPCODE_GATHER:
      return gather(domain, std::bit_cast<nkv_gather_command>(command));
    case NKV_OPCODE_TRANSCODE:
      return transcode(domain, std::bit_cast<nkv_pages_command>(command));
    case NKV_OPCODE_SCRUB:
      return scrub(domain, std::bit_cast<nkv_pages_command>(command));
    case NKV_OPCODE_ERASE:
      return erase(domain, std::bit_cast<nkv_pages_command>(command));
    case NKV_OPCODE_COPY:
      return copy(domain, std::bit_cast<nkv_pages_command>(command));
    default:
      return failure({NKV_STATUS_BAD_OPCODE, 0});
  }
}

}  // namespace nearkv::model
