#include "card/firmware.hpp"

#include <algorithm>
#include <array>
#include <cstring>

namespace nearkv {
namespace {

constexpr std::size_t kVersionBytes = 16;

/// 5e1819d9-11a9-400c-811f-d60719403d86, the vendor's debug log.
constexpr std::array<unsigned char, 16> kDebugLog = {
    0x5e, 0x18, 0x19, 0xd9, 0x11, 0xa9, 0x40, 0x0c, 0x81, 0x1f, 0xd6, 0x07, 0x19, 0x40, 0x3d, 0x86};

}  // namespace

Status read_firmware_info(CardMailbox* mailbox, FirmwareInfo* info, std::string* reason) {
  CardMailbox::Answer answer;
  Status status = mailbox->require(NKV_CCI_OPCODE_IDENTIFY_MEMORY, {}, &answer, reason);
  if (status != Status::kOk) return status;
  const std::span payload(answer.payload);
  info->version = take_text(payload.first(std::min(kVersionBytes, payload.size())));
  const auto uuid = std::as_bytes(std::span(kDebugLog));
  std::vector<std::byte> part(uuid.begin(), uuid.end());
  append_number(&part, 0, 4);
  append_number(&part, sizeof(info->panic), 4);
  status = mailbox->require(NKV_CCI_OPCODE_GET_LOG, part, &answer, reason);
  if (status != Status::kOk) return status;
  if (answer.payload.size() != sizeof(info->panic)) {
    *reason = "the card's firmware tells its panics in another way";
    return Status::kBadAbi;
  }
  std::memcpy(&info->panic, answer.payload.data(), sizeof(info->panic));
  return Status::kOk;
}

std::string describe_cause(std::uint32_t cause) {
  switch (cause) {
    case 1:
      return "nothing to execute there";
    case 2:
      return "an instruction that there is not";
    case 3:
      return "a breakpoint";
    case 5:
      return "nothing to load there";
    case 7:
      return "nothing to store to there";
    default:
      return "exception " + std::to_string(cause) + " of RISC-V";
  }
}

}  // namespace nearkv
