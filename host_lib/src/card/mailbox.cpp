#include "card/mailbox.hpp"

#include <fcntl.h>
#include <sys/ioctl.h>

#include <array>
#include <bit>
#include <cerrno>
#include <cstring>

namespace nearkv {
namespace {

Status fail(const std::string& name, int error, std::string* reason) {
  *reason = name + ": ";
  switch (error) {
    case ENOENT:
    case ENODEV:
    case ENXIO:
      *reason += "there is no such card; `nearkv card list` shows cards";
      return Status::kNoDevice;
    case EACCES:
    case EPERM:
      *reason += "its firmware takes commands from who has CAP_SYS_RAWIO; are you root?";
      return Status::kDenied;
    case EOPNOTSUPP:
      *reason += "it has no firmware";
      return Status::kUnsupported;
    case EBUSY:
      *reason += "its firmware still has a command of somebody who did not wait; try again";
      return Status::kBusy;
    case ETIMEDOUT:
      *reason += "its firmware does not answer; queues work on without it";
      return Status::kTimeout;
    case EINTR:
      *reason += "interrupted; its firmware goes on with the command";
      return Status::kCancelled;
    default:
      *reason += std::strerror(error);
      return Status::kIoError;
  }
}

}  // namespace

std::uint64_t CardMailbox::Answer::number(std::size_t at, std::size_t bytes) const {
  std::uint64_t value = 0;
  if (at > payload.size() || bytes > payload.size() - at) return 0;
  for (std::size_t i = 0; i < bytes; ++i) {
    value |= std::to_integer<std::uint64_t>(payload[at + i]) << 8 * i;
  }
  return value;
}

Status CardMailbox::open(const std::string& name, std::string* reason) {
  name_ = name;
  file_ = FileDescriptor(::open(("/dev/" + name).c_str(), O_RDWR | O_CLOEXEC));
  return file_ ? Status::kOk : fail(name, errno, reason);
}

Status CardMailbox::execute(std::uint16_t opcode, std::span<const std::byte> payload,
                            Answer* answer, std::string* reason) {
  std::array<std::byte, NKV_MAILBOX_BYTES> both{};
  if (payload.size() > both.size()) {
    *reason = name_ + ": a command has " + std::to_string(both.size()) + " bytes at most";
    return Status::kBadArgument;
  }
  std::memcpy(both.data(), payload.data(), payload.size());
  nkv_card_mailbox command{};
  command.opcode = opcode;
  command.payload_bytes = static_cast<std::uint32_t>(payload.size());
  command.room_bytes = both.size();
  command.payload = std::bit_cast<std::uint64_t>(both.data());
  if (::ioctl(file_.get(), NKV_IOCTL_MAILBOX, &command) != 0) return fail(name_, errno, reason);
  answer->status = static_cast<nkv_cci_status>(command.status);
  answer->payload.assign(both.begin(), both.begin() + command.payload_bytes);
  return Status::kOk;
}

Status CardMailbox::require(std::uint16_t opcode, std::span<const std::byte> payload,
                            Answer* answer, std::string* reason) {
  const Status status = execute(opcode, payload, answer, reason);
  return status == Status::kOk ? judge(answer->status, reason) : status;
}

Status CardMailbox::judge(nkv_cci_status status, std::string* reason) const {
  if (status == NKV_CCI_STATUS_SUCCESS) return Status::kOk;
  *reason = name_ + ": its firmware says: " + describe(status);
  switch (status) {
    case NKV_CCI_STATUS_INVALID_INPUT:
    case NKV_CCI_STATUS_FIRMWARE_AUTHENTICATION_FAILED:
    case NKV_CCI_STATUS_INVALID_PHYSICAL_ADDRESS:
    case NKV_CCI_STATUS_INVALID_EXTENT_LIST:
      return Status::kBadArgument;
    case NKV_CCI_STATUS_UNSUPPORTED:
      return Status::kUnsupported;
    case NKV_CCI_STATUS_BUSY:
    case NKV_CCI_STATUS_RETRY_REQUIRED:
    case NKV_CCI_STATUS_FIRMWARE_TRANSFER_IN_PROGRESS:
      return Status::kBusy;
    case NKV_CCI_STATUS_RESOURCES_EXHAUSTED:
      return Status::kPoolFull;
    default:
      return Status::kIoError;
  }
}

void append_number(std::vector<std::byte>* payload, std::uint64_t value, std::size_t bytes) {
  for (std::size_t i = 0; i < bytes; ++i) {
    payload->push_back(static_cast<std::byte>(value >> 8 * i & 0xFF));
  }
}

std::string take_text(std::span<const std::byte> bytes) {
  std::string text;
  for (const std::byte byte : bytes) {
    if (byte == std::byte{0}) break;
    text.push_back(static_cast<char>(byte));
  }
  return text;
}

std::string describe(nkv_cci_status status) {
  switch (status) {
    case NKV_CCI_STATUS_SUCCESS:
      return "done";
    case NKV_CCI_STATUS_INVALID_INPUT:
      return "a field has a value that it may not have";
    case NKV_CCI_STATUS_UNSUPPORTED:
      return "the firmware does not know this command";
    case NKV_CCI_STATUS_INTERNAL_ERROR:
      return "the card failed";
    case NKV_CCI_STATUS_RETRY_REQUIRED:
      return "the host has not answered what it was offered before";
    case NKV_CCI_STATUS_BUSY:
      return "something else runs in the background; try again";
    case NKV_CCI_STATUS_FIRMWARE_TRANSFER_IN_PROGRESS:
      return "somebody else updates it";
    case NKV_CCI_STATUS_FIRMWARE_AUTHENTICATION_FAILED:
      return "the image is not whole, or not signed with the key that the card trusts";
    case NKV_CCI_STATUS_INVALID_SLOT:
      return "there is no such slot, or it runs, or it has no image";
    case NKV_CCI_STATUS_FIRMWARE_ROLLED_BACK:
      return "the new image did not come up; the one before runs again";
    case NKV_CCI_STATUS_INVALID_PHYSICAL_ADDRESS:
      return "the address lies outside the memory, or is not the host's";
    case NKV_CCI_STATUS_INJECT_POISON_LIMIT:
      return "no more poison can be injected";
    case NKV_CCI_STATUS_RESOURCES_EXHAUSTED:
      return "there is not so much that is free and wiped";
    case NKV_CCI_STATUS_INVALID_EXTENT_LIST:
      return "extents are whole blocks, and none is there twice or somebody else's";
    default:
      return "status " + std::to_string(status) + " (CXL 3.1, table 8-34)";
  }
}

}  // namespace nearkv
