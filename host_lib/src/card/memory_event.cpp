#include "card/memory_event.hpp"

#include <event-parse.h>

#include <array>
#include <cstring>
#include <span>
#include <utility>

namespace nearkv {
namespace {

struct KindNames {
  const char* name;
  const char* trace_name;
};

/// By MemoryEventKind.
constexpr std::array<KindNames, 7> kKinds{{{"poison", "cxl_poison"},
                                           {"general_media", "cxl_general_media"},
                                           {"dram", "cxl_dram"},
                                           {"module", "cxl_memory_module"},
                                           {"correctable", "cxl_aer_correctable_error"},
                                           {"uncorrectable", "cxl_aer_uncorrectable_error"},
                                           {"overflow", "cxl_overflow"}}};
constexpr std::array<const char*, 5> kLogs{"", "informational", "warning", "failure", "fatal"};

// Bits of fields, named as CXL 3.1 does.
constexpr std::array<const char*, 3> kDescriptors{"uncorrectable", "threshold reached",
                                                  "list of poison is full"};
constexpr std::uint64_t kUncorrectable = 1;
constexpr std::uint64_t kBankIsValid = 1 << 4;
constexpr std::uint64_t kRowIsValid = 1 << 5;
constexpr std::array<const char*, 4> kHealth{"maintenance needed", "performance degraded",
                                             "replacement needed", "capacity degraded"};
constexpr std::array<const char*, 7> kCorrectableErrors{
    "cache data ECC",        "memory data ECC",        "CRC threshold", "retry threshold",
    "cache poison received", "memory poison received", "physical layer"};
constexpr std::array<const char*, 17> kUncorrectableErrors{"cache data parity",
                                                           "cache address parity",
                                                           "cache byte enable parity",
                                                           "cache data ECC",
                                                           "memory data parity",
                                                           "memory address parity",
                                                           "memory byte enable parity",
                                                           "memory data ECC",
                                                           "reinitialisation threshold",
                                                           "reserved encoding",
                                                           "poison received",
                                                           "receiver overflow",
                                                           "",
                                                           "",
                                                           "internal",
                                                           "IDE transmission",
                                                           "IDE reception"};
// Values of fields.
constexpr std::array<const char*, 9> kMedia{"normal",
                                            "not ready",
                                            "writes no longer persist",
                                            "all data lost",
                                            "writes will not persist after a power loss",
                                            "writes will not persist after a shutdown",
                                            "writes may soon not persist",
                                            "all data lost after a power loss",
                                            "all data lost after a shutdown"};
constexpr std::uint64_t kNotReady = 1;
constexpr std::uint64_t kAllDataLost = 3;
constexpr std::array<const char*, 4> kSources{"of unknown source", "received", "found by itself",
                                              "injected"};
constexpr std::uint64_t kPoisonCleared = 2;

class Record {
 public:
  Record(tep_event* event, tep_record* record) : event_(event), record_(record) {}

  /// 0 if there is no such field: kernels differ.
  [[nodiscard]] std::uint64_t number(const char* field) const {
    unsigned long long value = 0;
    return ::tep_get_field_val(nullptr, event_, field, record_, &value, 0) == 0 ? value : 0;
  }

  [[nodiscard]] std::string text(const char* field) const {
    int length = 0;
    const auto* const raw =
        static_cast<const char*>(::tep_get_field_raw(nullptr, event_, field, record_, &length, 0));
    if (raw == nullptr || length <= 0) return {};
    return {raw, ::strnlen(raw, static_cast<std::size_t>(length))};
  }

  /// An address; none where the kernel has all ones or no field.
  [[nodiscard]] std::optional<std::uint64_t> address(const char* field) const {
    unsigned long long value = 0;
    if (::tep_get_field_val(nullptr, event_, field, record_, &value, 0) != 0) return std::nullopt;
    return value == ~0ULL ? std::nullopt : std::optional<std::uint64_t>(value);
  }

 private:
  tep_event* event_;
  tep_record* record_;
};

/// "this, that": the names of the bits that are set.
std::string bits_text(std::uint64_t bits, std::span<const char* const> names) {
  std::string text;
  for (std::size_t i = 0; bits >> i != 0; ++i) {
    if ((bits >> i & 1) == 0) continue;
    const bool is_named = i < names.size() && names[i][0] != '\0';
    text += text.empty() ? "" : ", ";
    text += is_named ? names[i] : "bit " + std::to_string(i);
    if (i == 63) break;
  }
  return text;
}

std::string value_text(std::uint64_t value, std::span<const char* const> names) {
  return value < names.size() ? names[value] : "code " + std::to_string(value);
}

void read_poison(const Record& record, MemoryEvent* event) {
  const bool is_cleared = record.number("trace_type") == kPoisonCleared;
  event->bytes = record.number("dpa_length");
  event->region = record.text("region");
  event->what = is_cleared ? "cleared" : value_text(record.number("source"), kSources);
  event->status = is_cleared ? Status::kOk : Status::kPoison;
}

void read_media(const Record& record, MemoryEvent* event) {
  const std::uint64_t descriptor = record.number("descriptor");
  event->region = record.text("region_name");
  event->what = descriptor == 0 ? "corrected" : bits_text(descriptor, kDescriptors);
  if (event->kind == MemoryEventKind::kDram) {
    const std::uint64_t valid = record.number("validity_flags");
    if ((valid & kBankIsValid) != 0)
      event->what += ", bank " + std::to_string(record.number("bank"));
    if ((valid & kRowIsValid) != 0) event->what += ", row " + std::to_string(record.number("row"));
  }
  if ((descriptor & kUncorrectable) != 0) event->status = Status::kPoison;
}

void read_module(const Record& record, MemoryEvent* event) {
  const std::uint64_t health = record.number("health_status");
  const std::uint64_t media = record.number("media_status");
  event->what = "media " + value_text(media, kMedia);
  if (health != 0) event->what += "; " + bits_text(health, kHealth);
  const auto temperature = static_cast<std::int16_t>(record.number("device_temp"));
  event->what += "; " + std::to_string(temperature) + " C";
  if (media == kNotReady) event->status = Status::kNoDevice;
  if (media == kAllDataLost) event->status = Status::kPoison;
}

void read_kind(const Record& record, MemoryEvent* event) {
  switch (event->kind) {
    case MemoryEventKind::kPoison:
      return read_poison(record, event);
    case MemoryEventKind::kGeneralMedia:
    case MemoryEventKind::kDram:
      return read_media(record, event);
    case MemoryEventKind::kModule:
      return read_module(record, event);
    case MemoryEventKind::kCorrectable:
      event->what = bits_text(record.number("status"), kCorrectableErrors);
      return;
    case MemoryEventKind::kUncorrectable:
      event->what = bits_text(record.number("status"), kUncorrectableErrors);
      event->status = Status::kNoDevice;
      return;
    case MemoryEventKind::kOverflow:
      event->what = std::to_string(record.number("count")) + " events were not logged";
      return;
  }
}

bool has_log(MemoryEventKind kind) {
  return kind == MemoryEventKind::kGeneralMedia || kind == MemoryEventKind::kDram ||
         kind == MemoryEventKind::kModule || kind == MemoryEventKind::kOverflow;
}

}  // namespace

const char* name_of(MemoryEventKind kind) { return kKinds.at(static_cast<std::size_t>(kind)).name; }

const char* name_of(MemoryEventLog log) { return kLogs.at(static_cast<std::size_t>(log)); }

std::vector<const char*> memory_event_traces() {
  std::vector<const char*> names;
  names.reserve(kKinds.size());
  for (const KindNames& kind : kKinds) names.push_back(kind.trace_name);
  return names;
}

std::optional<MemoryEvent> decode_memory_event(tep_event* event, tep_record* record) {
  const Record fields(event, record);
  for (std::size_t i = 0; i < kKinds.size(); ++i) {
    if (std::strcmp(event->name, kKinds[i].trace_name) != 0) continue;
    MemoryEvent found;
    found.kind = static_cast<MemoryEventKind>(i);
    found.module = fields.text("memdev");
    found.time_ns = record->ts;
    found.address = fields.address("dpa");
    found.machine_address = fields.address("hpa");
    read_kind(fields, &found);
    if (has_log(found.kind) && fields.number("log") + 1 < kLogs.size()) {
      found.log = static_cast<MemoryEventLog>(fields.number("log") + 1);
    }
    if (found.log == MemoryEventLog::kFatal) found.status = Status::kNoDevice;
    return found;
  }
  return std::nullopt;
}

}  // namespace nearkv
