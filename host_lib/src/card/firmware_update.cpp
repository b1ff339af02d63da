#include "card/firmware_update.hpp"

#include <algorithm>
#include <array>
#include <chrono>
#include <thread>

namespace nearkv {
namespace {

using namespace std::chrono_literals;

constexpr std::size_t kRevisionsAt = 16;
constexpr std::size_t kRevisionBytes = 16;
constexpr std::size_t kHeaderBytes = 128;
constexpr std::size_t kUnitBytes = 128;
constexpr std::size_t kPartBytes = NKV_MAILBOX_BYTES - kHeaderBytes;
constexpr auto kPollPause = 20ms;

std::vector<std::byte> part(nkv_cci_transfer action, unsigned slot, std::size_t offset,
                            std::span<const std::byte> bytes) {
  std::vector<std::byte> payload;
  append_number(&payload, action, 1);
  append_number(&payload, slot, 1);
  append_number(&payload, 0, 2);
  append_number(&payload, offset / kUnitBytes, 4);
  payload.resize(kHeaderBytes);
  payload.insert(payload.end(), bytes.begin(), bytes.end());
  return payload;
}

/// Until nothing runs in the background: how it ended.
Status await_background(CardMailbox* mailbox, nkv_cci_status* ended, std::string* reason) {
  for (;;) {
    CardMailbox::Answer answer;
    const Status status = mailbox->require(NKV_CCI_OPCODE_GET_BACKGROUND, {}, &answer, reason);
    if (status != Status::kOk) return status;
    *ended = static_cast<nkv_cci_status>(answer.number(4, 2));
    if ((answer.number(0, 1) & 1) == 0) return Status::kOk;
    std::this_thread::sleep_for(kPollPause);
  }
}

/// Executes a command that goes on in the background, to its end.
Status finish(CardMailbox* mailbox, std::uint16_t opcode, std::span<const std::byte> payload,
              std::string* reason) {
  CardMailbox::Answer answer;
  Status status = mailbox->execute(opcode, payload, &answer, reason);
  if (status == Status::kOk && answer.status == NKV_CCI_STATUS_BACKGROUND_STARTED) {
    status = await_background(mailbox, &answer.status, reason);
  }
  return status == Status::kOk ? mailbox->judge(answer.status, reason) : status;
}

}  // namespace

Status read_firmware_slots(CardMailbox* mailbox, FirmwareSlots* slots, std::string* reason) {
  CardMailbox::Answer answer;
  const Status status = mailbox->require(NKV_CCI_OPCODE_GET_FIRMWARE, {}, &answer, reason);
  if (status != Status::kOk) return status;
  slots->active = static_cast<unsigned>(answer.number(1, 1) & 7);
  slots->staged = static_cast<unsigned>(answer.number(1, 1) >> 3 & 7);
  slots->revisions.clear();
  const std::span payload(answer.payload);
  for (std::size_t i = 0; i < answer.number(0, 1); ++i) {
    const std::size_t at = std::min(payload.size(), kRevisionsAt + i * kRevisionBytes);
    slots->revisions.push_back(
        take_text(payload.subspan(at, std::min(kRevisionBytes, payload.size() - at))));
  }
  return Status::kOk;
}

Status transfer_firmware(CardMailbox* mailbox, std::span<const std::byte> image,
                         const FirmwareProgress& progress, unsigned* slot, std::string* reason) {
  FirmwareSlots slots;
  Status status = read_firmware_slots(mailbox, &slots, reason);
  if (status != Status::kOk) return status;
  *slot = slots.active == 1 ? 2 : 1;
  for (std::size_t at = 0;; at += kPartBytes) {
    const auto rest = image.subspan(at);
    const bool is_last = rest.size() <= kPartBytes;
    const nkv_cci_transfer first = is_last ? NKV_CCI_TRANSFER_FULL : NKV_CCI_TRANSFER_INITIATE;
    const nkv_cci_transfer later = is_last ? NKV_CCI_TRANSFER_END : NKV_CCI_TRANSFER_CONTINUE;
    status = finish(
        mailbox, NKV_CCI_OPCODE_TRANSFER_FIRMWARE,
        part(at == 0 ? first : later, *slot, at, rest.first(std::min(kPartBytes, rest.size()))),
        reason);
    if (status != Status::kOk || is_last) break;
    progress(at + kPartBytes);
  }
  if (status != Status::kOk) {
    CardMailbox::Answer answer;
    std::string unsaid;
    (void)mailbox->execute(NKV_CCI_OPCODE_TRANSFER_FIRMWARE, part(NKV_CCI_TRANSFER_ABORT, 0, 0, {}),
                           &answer, &unsaid);
  }
  return status;
}

Status activate_firmware(CardMailbox* mailbox, unsigned slot, bool at_once, std::string* reason) {
  const std::array payload = {std::byte{at_once ? std::uint8_t{0} : std::uint8_t{1}},
                              static_cast<std::byte>(slot)};
  return finish(mailbox, NKV_CCI_OPCODE_ACTIVATE_FIRMWARE, payload, reason);
}

}  // namespace nearkv
