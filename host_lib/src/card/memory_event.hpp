// What a CXL module reports of its memory, as the kernel's own drivers trace it.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "nearkv/status.hpp"

// Of libtraceevent.
struct tep_event;   // NOLINT(readability-identifier-naming)
struct tep_record;  // NOLINT(readability-identifier-naming)

namespace nearkv {

/// Which event of the drivers (CXL 3.1 8.2.9.2.1, 8.2.4.17).
enum class MemoryEventKind : std::uint8_t {
  kPoison,         ///< An entry of the module's list of poison, or a change of it.
  kGeneralMedia,   ///< Something happened to the media at an address.
  kDram,           ///< The same of a DRAM.
  kModule,         ///< The module's health has changed.
  kCorrectable,    ///< The link or the module corrected an error.
  kUncorrectable,  ///< It could not: the kernel gives the module up and starts it anew.
  kOverflow,       ///< The module had no room left to log what happened.
};

/// The module's log that an event came from: its severity.
enum class MemoryEventLog : std::uint8_t { kNone, kInformational, kWarning, kFailure, kFatal };

struct MemoryEvent {
  MemoryEventKind kind = MemoryEventKind::kPoison;
  MemoryEventLog log = MemoryEventLog::kNone;
  std::string module;         ///< "mem0"
  std::uint64_t time_ns = 0;  ///< When the kernel told it, since boot.
  /// In the module's memory; a card's device memory begins at address 0 of it.
  std::optional<std::uint64_t> address;
  std::uint64_t bytes = 0;                       ///< From there on, if the event says.
  std::optional<std::uint64_t> machine_address;  ///< Where a region maps that.
  std::string region;                            ///< "" if none does.
  std::string what;                              ///< For a person.
  /// What it means for who uses the memory. kPoison: the bytes at `address` are lost; kNoDevice:
  /// the module is, and its region has to be made and attached again; kOk: nothing is.
  Status status = Status::kOk;
};

/// A record of the trace as an event. None: it is of no kind known here.
[[nodiscard]] std::optional<MemoryEvent> decode_memory_event(tep_event* event, tep_record* record);

/// "general_media"
[[nodiscard]] const char* name_of(MemoryEventKind kind);
/// "warning"; "" of kNone.
[[nodiscard]] const char* name_of(MemoryEventLog log);
/// What the kernel's drivers call all kinds: "cxl_general_media".
[[nodiscard]] std::vector<const char*> memory_event_traces();

}  // namespace nearkv
