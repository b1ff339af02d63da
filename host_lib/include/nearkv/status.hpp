// How an operation ended. One enumeration for devices and library, from the contract.
#pragma once

#include <cstdint>
#include <string_view>

#include "nkv_abi.h"

namespace nearkv {

/// The contract's statuses (rtl/abi/nearkv.toml). Below 64: returned by devices; from 64 on: the
/// library's own. Ignoring one is a compile-time warning.
enum class [[nodiscard]] Status : std::uint8_t {
  kOk = NKV_STATUS_OK,
  kBadOpcode = NKV_STATUS_BAD_OPCODE,
  kBadField = NKV_STATUS_BAD_FIELD,
  kAddressFault = NKV_STATUS_ADDRESS_FAULT,
  kStalePage = NKV_STATUS_STALE_PAGE,
  kBadPage = NKV_STATUS_BAD_PAGE,
  kCorrupt = NKV_STATUS_CORRUPT,
  kPoison = NKV_STATUS_POISON,
  kPageOverflow = NKV_STATUS_PAGE_OVERFLOW,
  kBadQuery = NKV_STATUS_BAD_QUERY,
  kUnsupported = NKV_STATUS_UNSUPPORTED,
  kColdPage = NKV_STATUS_COLD_PAGE,
  kAborted = NKV_STATUS_ABORTED,
  kInternal = NKV_STATUS_INTERNAL,
  kNotWritten = NKV_STATUS_NOT_WRITTEN,
  kNoDevice = NKV_STATUS_NO_DEVICE,
  kBadUri = NKV_STATUS_BAD_URI,
  kBadAbi = NKV_STATUS_BAD_ABI,
  kBadArgument = NKV_STATUS_BAD_ARGUMENT,
  kPoolFull = NKV_STATUS_POOL_FULL,
  kNotFound = NKV_STATUS_NOT_FOUND,
  kExists = NKV_STATUS_EXISTS,
  kQueueFull = NKV_STATUS_QUEUE_FULL,
  kTimeout = NKV_STATUS_TIMEOUT,
  kBadPool = NKV_STATUS_BAD_POOL,
  kIoError = NKV_STATUS_IO_ERROR,
  kOutOfMemory = NKV_STATUS_OUT_OF_MEMORY,
  kCodecError = NKV_STATUS_CODEC_ERROR,
  kCancelled = NKV_STATUS_CANCELLED,
  kBusy = NKV_STATUS_BUSY,
  kQuota = NKV_STATUS_QUOTA,
  kDenied = NKV_STATUS_DENIED,
  kNameTooLong = NKV_STATUS_NAME_TOO_LONG,
  kObjectTooLarge = NKV_STATUS_OBJECT_TOO_LARGE,
  kNamespacesFull = NKV_STATUS_NAMESPACES_FULL,
  kWindowTooSmall = NKV_STATUS_WINDOW_TOO_SMALL,
  kFenced = NKV_STATUS_FENCED,
  kNotYet = NKV_STATUS_NOT_YET,
  kNoDaemon = NKV_STATUS_NO_DAEMON,
  kForked = NKV_STATUS_FORKED,
};

/// One line for a person: what happened and what to do.
[[nodiscard]] inline std::string_view message(Status status) noexcept {
  return nkv_status_message(static_cast<std::uint8_t>(status));
}

/// Negative errno for the C edge; 0 for kOk.
[[nodiscard]] inline int to_errno(Status status) noexcept {
  return -nkv_status_errno(static_cast<std::uint8_t>(status));
}

}  // namespace nearkv
