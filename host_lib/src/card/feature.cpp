#include "card/feature.hpp"

namespace nearkv {
namespace {

constexpr std::size_t kUuidBytes = 16;
constexpr std::size_t kListBytes = 8;
constexpr std::size_t kEntryBytes = 48;

}  // namespace

Status read_feature(CardMailbox* mailbox, nkv_card_feature which, Feature* feature,
                    std::string* reason) {
  std::vector<std::byte> payload;
  append_number(&payload, kListBytes + kEntryBytes, 4);
  append_number(&payload, which, 4);
  CardMailbox::Answer answer;
  Status status = mailbox->require(NKV_CCI_OPCODE_GET_SUPPORTED_FEATURES, payload, &answer, reason);
  if (status != Status::kOk && status != Status::kBadArgument) return status;
  if (status == Status::kBadArgument || answer.payload.size() != kListBytes + kEntryBytes) {
    *reason = "the card's firmware does not have this feature";
    return Status::kUnsupported;
  }
  const auto entry = std::span(answer.payload).subspan(kListBytes);
  feature->uuid.assign(entry.begin(), entry.begin() + kUuidBytes);
  feature->set_bytes = answer.number(kListBytes + 20, 2);
  payload = feature->uuid;
  append_number(&payload, 0, 2);
  append_number(&payload, answer.number(kListBytes + 18, 2), 2);
  append_number(&payload, 0, 1);
  status = mailbox->require(NKV_CCI_OPCODE_GET_FEATURE, payload, &answer, reason);
  feature->value = answer.payload;
  return status;
}

Status write_feature(CardMailbox* mailbox, const Feature& feature, std::span<const std::byte> value,
                     std::string* reason) {
  constexpr unsigned kVersion = 1;
  constexpr std::size_t kReservedBytes = 9;
  std::vector<std::byte> payload = feature.uuid;
  append_number(&payload, NKV_CCI_TRANSFER_FULL, 4);
  append_number(&payload, 0, 2);
  append_number(&payload, kVersion, 1);
  payload.resize(payload.size() + kReservedBytes);
  payload.insert(payload.end(), value.begin(), value.end());
  CardMailbox::Answer answer;
  return mailbox->require(NKV_CCI_OPCODE_SET_FEATURE, payload, &answer, reason);
}

}  // namespace nearkv
