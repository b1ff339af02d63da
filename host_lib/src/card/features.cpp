#include "card/features.hpp"

#include <algorithm>
#include <array>
#include <cstddef>
#include <span>

#include "card/feature.hpp"

namespace nearkv {
namespace {

/// Where a field stands in what is read of its feature, and in what is set of it, in bits.
struct Place {
  const char* name;
  const char* help;
  nkv_card_feature feature;
  unsigned bits;
  unsigned read_at;
  unsigned set_at;
};

/// `set_at` of what cannot be set.
constexpr unsigned kOnlyRead = 1 << 16;

/// Where a monitor's setting has a field, and behind both monitors' its status.
constexpr unsigned setting_at(nkv_card_monitor monitor, std::size_t field) {
  return static_cast<unsigned>(8 * (monitor * sizeof(nkv_hotness_setting) + field));
}
constexpr unsigned status_at(nkv_card_monitor monitor, std::size_t field) {
  constexpr std::size_t kSettings = (NKV_CARD_MONITOR_NEAR + 1) * sizeof(nkv_hotness_setting);
  return static_cast<unsigned>(8 * (kSettings + monitor * sizeof(nkv_hotness_status) + field));
}
constexpr Place setting(const char* name, const char* help, nkv_card_monitor monitor, unsigned bits,
                        std::size_t field) {
  const unsigned at = setting_at(monitor, field);
  return {name, help, NKV_CARD_FEATURE_HOTNESS, bits, at, at};
}
constexpr Place status(const char* name, const char* help, nkv_card_monitor monitor, unsigned bits,
                       std::size_t field) {
  return {name, help, NKV_CARD_FEATURE_HOTNESS, bits, status_at(monitor, field), kOnlyRead};
}

constexpr std::array kPlaces = {
    Place{"scrub.hours", "in which all of the memory is read once", NKV_CARD_FEATURE_SCRUB, 8, 8,
          0},
    Place{"scrub.enabled", "whether it runs", NKV_CARD_FEATURE_SCRUB, 1, 24, 8},
    Place{"sharing.custom", "whether what follows holds, not the engine's own values",
          NKV_CARD_FEATURE_SHARING, 1, 0, 0},
    Place{"sharing.near_sixteenths", "of the memory's bandwidth are near-data's beside the host",
          NKV_CARD_FEATURE_SHARING, 4, 1, 1},
    Place{"sharing.age_cycles", "near-data that has waited so long goes next",
          NKV_CARD_FEATURE_SHARING, 10, 5, 5},
    Place{"sharing.near_least", "accesses that near-data may always have in flight",
          NKV_CARD_FEATURE_SHARING, 16, 64, 64},
    Place{"sharing.near_reads", "it may have more while fewer reads are in flight",
          NKV_CARD_FEATURE_SHARING, 16, 80, 80},
    Place{"sharing.near_writes", "the same of writes", NKV_CARD_FEATURE_SHARING, 16, 96, 96},
    Place{"sharing.load_optimal", "accesses in flight from which on DevLoad is optimal",
          NKV_CARD_FEATURE_SHARING, 16, 128, 128},
    Place{"sharing.load_overload", "and from which on it is overload", NKV_CARD_FEATURE_SHARING, 16,
          144, 144},
    setting("hotness.near_enabled",
            "whether the firmware counts what commands read, without a host", NKV_CARD_MONITOR_NEAR,
            1, offsetof(nkv_hotness_setting, enabled)),
    setting("hotness.near_unit_log2", "log2 of a unit's bytes", NKV_CARD_MONITOR_NEAR, 8,
            offsetof(nkv_hotness_setting, unit_log2)),
    setting("hotness.near_epoch_ms", "milliseconds of an epoch", NKV_CARD_MONITOR_NEAR, 16,
            offsetof(nkv_hotness_setting, epoch_ms)),
    setting("hotness.near_units", "hot units of an epoch that are wanted", NKV_CARD_MONITOR_NEAR,
            16, offsetof(nkv_hotness_setting, units)),
    status("hotness.near_state", "0 off, 1 starting, 2 counting, 3 the host's, 4 unfit, 5 absent",
           NKV_CARD_MONITOR_NEAR, 8, offsetof(nkv_hotness_status, state)),
    status("hotness.near_threshold", "accesses from which on a unit is hot now",
           NKV_CARD_MONITOR_NEAR, 32, offsetof(nkv_hotness_status, threshold)),
    setting("hotness.host_enabled", "the same of what hosts read and write", NKV_CARD_MONITOR_HOST,
            1, offsetof(nkv_hotness_setting, enabled)),
    setting("hotness.host_unit_log2", "", NKV_CARD_MONITOR_HOST, 8,
            offsetof(nkv_hotness_setting, unit_log2)),
    setting("hotness.host_epoch_ms", "", NKV_CARD_MONITOR_HOST, 16,
            offsetof(nkv_hotness_setting, epoch_ms)),
    setting("hotness.host_units", "", NKV_CARD_MONITOR_HOST, 16,
            offsetof(nkv_hotness_setting, units)),
    status("hotness.host_state", "", NKV_CARD_MONITOR_HOST, 8, offsetof(nkv_hotness_status, state)),
    status("hotness.host_threshold", "", NKV_CARD_MONITOR_HOST, 32,
           offsetof(nkv_hotness_status, threshold)),
};

std::uint64_t get_bits(std::span<const std::byte> bytes, unsigned at, unsigned count) {
  std::uint64_t value = 0;
  for (unsigned i = 0; i < count; ++i) {
    const bool bit = (std::to_integer<unsigned>(bytes[(at + i) / 8]) >> (at + i) % 8 & 1) != 0;
    value |= std::uint64_t{bit} << i;
  }
  return value;
}

void put_bits(std::span<std::byte> bytes, unsigned at, unsigned count, std::uint64_t value) {
  for (unsigned i = 0; i < count; ++i) {
    const auto mask = static_cast<std::byte>(1U << (at + i) % 8);
    std::byte& byte = bytes[(at + i) / 8];
    byte = (value >> i & 1) != 0 ? byte | mask : byte & ~mask;
  }
}

}  // namespace

Status read_features(CardMailbox* mailbox, std::vector<FeatureField>* fields, std::string* reason) {
  fields->clear();
  for (const nkv_card_feature which :
       {NKV_CARD_FEATURE_SCRUB, NKV_CARD_FEATURE_SHARING, NKV_CARD_FEATURE_HOTNESS}) {
    Feature feature;
    const Status status = read_feature(mailbox, which, &feature, reason);
    // An older image has the first of them.
    if (status == Status::kUnsupported && !fields->empty()) break;
    if (status != Status::kOk) return status;
    for (const Place& place : kPlaces) {
      if (place.feature != which || place.read_at + place.bits > 8 * feature.value.size()) continue;
      fields->push_back(
          {place.name, place.help, get_bits(feature.value, place.read_at, place.bits)});
    }
  }
  return Status::kOk;
}

Status set_feature(CardMailbox* mailbox, const std::string& name, std::uint64_t value,
                   std::string* reason) {
  const auto* const wanted =
      std::ranges::find_if(kPlaces, [&](const Place& place) { return place.name == name; });
  if (wanted == kPlaces.end()) {
    *reason = "there is no field '" + name + "'; `nearkv card features` shows them";
    return Status::kBadArgument;
  }
  if (wanted->set_at == kOnlyRead) {
    *reason = name + " can only be read";
    return Status::kBadArgument;
  }
  if (value >> wanted->bits != 0) {
    *reason = name + " has " + std::to_string(wanted->bits) + " bits";
    return Status::kBadArgument;
  }
  Feature feature;
  const Status status = read_feature(mailbox, wanted->feature, &feature, reason);
  if (status != Status::kOk) return status;
  std::vector<std::byte> bytes(feature.set_bytes);
  for (const Place& place : kPlaces) {
    if (place.feature != wanted->feature || place.set_at + place.bits > 8 * bytes.size() ||
        place.read_at + place.bits > 8 * feature.value.size()) {
      continue;
    }
    const bool is_wanted = &place == wanted;
    put_bits(bytes, place.set_at, place.bits,
             is_wanted ? value : get_bits(feature.value, place.read_at, place.bits));
  }
  return write_feature(mailbox, feature, bytes, reason);
}

}  // namespace nearkv
