#include "card/hotness_list.hpp"

#include <algorithm>
#include <cstring>

namespace nearkv {
namespace {

constexpr std::size_t kUuidBytes = 16;
constexpr std::size_t kListBytes = 8;
constexpr std::size_t kEntryBytes = kUuidBytes + 4;

}  // namespace

Status read_hotness_list(CardMailbox* mailbox, nkv_card_monitor monitor, nkv_hotness_list* list,
                         std::string* reason) {
  CardMailbox::Answer answer;
  Status status = mailbox->require(NKV_CCI_OPCODE_GET_SUPPORTED_LOGS, {}, &answer, reason);
  if (status != Status::kOk) return status;
  const std::size_t entry = kListBytes + kEntryBytes * NKV_CARD_LOG_HOTNESS;
  if (answer.payload.size() < entry + kEntryBytes) {
    *reason = "the card's firmware does not watch for hot units";
    return Status::kUnsupported;
  }
  const auto uuid = std::span(answer.payload).subspan(entry, kUuidBytes);
  std::vector<std::byte> part(uuid.begin(), uuid.end());
  append_number(&part, monitor * sizeof(*list), 4);
  append_number(&part, sizeof(*list), 4);
  status = mailbox->require(NKV_CCI_OPCODE_GET_LOG, part, &answer, reason);
  if (status != Status::kOk) return status;
  if (answer.payload.size() != sizeof(*list)) {
    *reason = "the card's firmware tells hot units in another way";
    return Status::kBadAbi;
  }
  std::memcpy(list, answer.payload.data(), sizeof(*list));
  list->units = std::min<std::uint16_t>(list->units, NKV_HOTNESS_UNITS);
  return Status::kOk;
}

std::string name_of(nkv_hotness_state state) {
  switch (state) {
    case NKV_HOTNESS_STATE_OFF:
      return "off";
    case NKV_HOTNESS_STATE_STARTING:
      return "starting";
    case NKV_HOTNESS_STATE_COUNTING:
      return "counting";
    case NKV_HOTNESS_STATE_HOST:
      return "host";
    case NKV_HOTNESS_STATE_UNFIT:
      return "unfit";
    case NKV_HOTNESS_STATE_ABSENT:
      return "absent";
    default:
      return "state " + std::to_string(state);
  }
}

}  // namespace nearkv
