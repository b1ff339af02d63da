// The firmware on a card that is played here: its memory is a set of poisoned lines.
#pragma once

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <initializer_list>
#include <map>
#include <set>
#include <span>
#include <string>
#include <vector>

#include "management/flash.hpp"
#include "nkv_abi.h"
#include "nkv_card.h"

extern "C" {
#include "firmware/boot/loader.h"
#include "firmware/bytes.h"
#include "firmware/cci/cci.h"
}

namespace nearkv::testing {

/// Little-endian fields of a payload, one behind the other.
class Payload {
 public:
  Payload& number(std::uint64_t value, std::size_t bytes) {
    bytes_.resize(bytes_.size() + bytes);
    put_number(bytes_.data() + bytes_.size() - bytes, value, bytes);
    return *this;
  }
  Payload& zeros(std::size_t bytes) { return number_of(0, bytes); }
  Payload& number_of(std::uint8_t value, std::size_t bytes) {
    bytes_.insert(bytes_.end(), bytes, value);
    return *this;
  }
  Payload& raw(std::span<const std::uint8_t> more) {
    bytes_.insert(bytes_.end(), more.begin(), more.end());
    return *this;
  }
  [[nodiscard]] std::span<const std::uint8_t> bytes() const { return bytes_; }

 private:
  std::vector<std::uint8_t> bytes_;
};

/// A range of memory, as commands name it.
inline Payload range(std::uint64_t first, std::uint64_t bytes) {
  return Payload().number(first, 8).number(bytes / LINE_BYTES, 8);
}

/// A part of a log, as GET_LOG wants it.
inline Payload log_part(std::span<const std::uint8_t> uuid, std::uint64_t offset,
                        std::uint64_t bytes) {
  return Payload().raw(uuid).number(offset, 4).number(bytes, 4);
}

struct Answer {
  nkv_cci_status status;
  std::vector<std::uint8_t> bytes;

  [[nodiscard]] std::uint64_t number(std::size_t at, std::size_t size) const {
    return at + size <= bytes.size() ? take_number(bytes.data() + at, size) : ~std::uint64_t{0};
  }
  /// Up to `size` characters, which a zero ends.
  [[nodiscard]] std::string text(std::size_t at, std::size_t size) const {
    std::string found;
    for (; size > 0 && at < bytes.size() && bytes[at] != 0; ++at, --size) {
      found.push_back(static_cast<char>(bytes[at]));
    }
    return found;
  }
};

class Card {
 public:
  static constexpr std::uint64_t kMemoryBytes = std::uint64_t{1} << 30;
  static constexpr std::uint64_t kDynamicBytes = std::uint64_t{1} << 28;

  explicit Card(std::uint64_t dynamic_bytes = kDynamicBytes) : dynamic_bytes_(dynamic_bytes) {
    power_on();
  }

  Card(const Card&) = delete;
  Card& operator=(const Card&) = delete;

  /// Starts as after a power failure.
  void power_on() {
    flash.restore_power();
    start();
  }
  /// Starts as after a reset: by the loader.
  void start() {
    loader_run(&flash_, {built_in.data(), static_cast<std::uint32_t>(built_in.size())},
               memory.data(), &boot);
    firmware_start(&firmware_, &platform_);
  }

  /// The commands that this card has.
  [[nodiscard]] std::span<const cci_command> commands() const {
    return {cci_commands, cci_command_count(&firmware_)};
  }

  Answer execute(std::uint16_t opcode, std::span<const std::uint8_t> payload = {}) {
    static cci_answer answer;
    const nkv_cci_status status =
        cci_execute(&firmware_, opcode, {payload.data(), payload.size()}, &answer);
    return {status, {answer.bytes, answer.bytes + answer.size}};
  }
  Answer execute(std::uint16_t opcode, const Payload& payload) {
    return execute(opcode, payload.bytes());
  }

  /// The memory controller finds errors, and the firmware takes notice.
  void fail(std::initializer_list<media_error> errors) {
    errors_.insert(errors_.end(), errors);
    while (firmware_turn(&firmware_)) {
    }
  }

  /// One turn of the firmware's loop; false if there was nothing to do.
  bool turn() { return firmware_turn(&firmware_); }

  std::uint64_t uptime_ns = 0;
  std::int16_t celsius = 40;
  bool media_answers = true;
  std::set<std::uint64_t> poisoned;
  ::kept kept{};  ///< Outlives a start.
  std::uint64_t wiped_bytes = 0;
  nkv_firmware_panic panic{};
  nkv_firmware_boot boot{};
  emulator::Flash flash;
  std::vector<std::uint8_t> built_in = {'b', 'u', 'i', 'l', 't', ' ', 'i', 'n'};
  std::vector<std::uint8_t> memory = std::vector<std::uint8_t>(IMAGE_MOST_BYTES);  ///< Image.
  unsigned restarts = 0;
  std::map<std::uint32_t, std::uint64_t> registers{{NKV_REG_ID, NKV_ABI_ID}};
  /// Plays the engine's registers, which else are memory; false: they do not answer.
  std::function<bool(std::uint32_t offset, std::uint64_t* value, bool is_write)> play;
  std::vector<unsigned> interrupts;

 private:
  static Card& of(void* context) { return *static_cast<Card*>(context); }

  std::uint64_t dynamic_bytes_;
  std::deque<media_error> errors_;
  const ::flash flash_{
      .context = this,
      .read =
          [](void* context, std::uint32_t at, std::uint8_t* bytes) {
            return of(context).flash.read(
                at, std::as_writable_bytes(std::span<std::uint8_t, LINE_BYTES>(bytes, LINE_BYTES)));
          },
      .write =
          [](void* context, std::uint32_t at, const std::uint8_t* bytes) {
            return of(context).flash.write(
                at, std::as_bytes(std::span<const std::uint8_t, LINE_BYTES>(bytes, LINE_BYTES)));
          },
      .erase = [](void* context, std::uint32_t at) { return of(context).flash.erase(at); }};
  const platform platform_{
      .context = this,
      .memory_bytes = kMemoryBytes,
      .dynamic_bytes = dynamic_bytes_,
      .serial = 7,
      .kept = &kept,
      .panic = &panic,
      .boot = &boot,
      .flash = &flash_,
      .uptime_ns = [](void* context) { return of(context).uptime_ns; },
      .temperature_celsius = [](void* context) { return of(context).celsius; },
      .take_media_error =
          [](void* context, media_error* error) {
            Card& card = of(context);
            if (card.errors_.empty()) return false;
            *error = card.errors_.front();
            card.errors_.pop_front();
            return true;
          },
      .poison_line =
          [](void* context, std::uint64_t address) {
            if (of(context).media_answers) of(context).poisoned.insert(address);
            return of(context).media_answers;
          },
      .write_line =
          [](void* context, std::uint64_t address, const std::uint8_t*) {
            if (of(context).media_answers) of(context).poisoned.erase(address);
            return of(context).media_answers;
          },
      .check_lines =
          [](void* context, std::uint64_t* address, std::uint32_t bytes) {
            const auto first = of(context).poisoned.lower_bound(*address);
            const std::uint64_t end = *address + bytes;
            *address = first == of(context).poisoned.end() ? end : std::min(end, *first);
            return of(context).media_answers;
          },
      .wipe =
          [](void* context, std::uint64_t address, std::uint32_t bytes) {
            Card& card = of(context);
            if (!card.media_answers) return false;
            card.poisoned.erase(card.poisoned.lower_bound(address),
                                card.poisoned.lower_bound(address + bytes));
            card.wiped_bytes += bytes;
            return true;
          },
      .read_register =
          [](void* context, std::uint32_t offset, std::uint64_t* value) {
            if (of(context).play) return of(context).play(offset, value, false);
            *value = of(context).registers[offset];
            return of(context).media_answers;
          },
      .write_register =
          [](void* context, std::uint32_t offset, std::uint64_t value) {
            if (of(context).play) return of(context).play(offset, &value, true);
            of(context).registers[offset] = value;
            return of(context).media_answers;
          },
      .restart = [](void* context) { ++of(context).restarts; },
      .interrupt = [](void* context,
                      unsigned message) { of(context).interrupts.push_back(message); }};
  firmware firmware_;
};

/// Begins a random payload with the name of a log or of a feature, where a command wants one, and
/// has it set the version that there is.
inline void name_something(Card& card, std::uint16_t opcode, std::uint64_t random,
                           std::span<std::uint8_t> payload) {
  constexpr std::size_t kUuidBytes = 16;
  constexpr std::size_t kVersionAt = 22;
  const bool is_log = opcode == NKV_CCI_OPCODE_GET_LOG;
  const bool sets = opcode == NKV_CCI_OPCODE_SET_FEATURE;
  if (payload.size() <= kVersionAt - 2 ||
      (!is_log && !sets && opcode != NKV_CCI_OPCODE_GET_FEATURE))
    return;
  const Answer all = is_log ? card.execute(NKV_CCI_OPCODE_GET_SUPPORTED_LOGS)
                            : card.execute(NKV_CCI_OPCODE_GET_SUPPORTED_FEATURES,
                                           Payload().number(NKV_MAILBOX_BYTES, 4).zeros(4));
  const std::size_t at = 8 + random % all.number(is_log ? 0 : 2, 2) * (is_log ? 20 : 48);
  std::copy_n(all.bytes.begin() + static_cast<std::ptrdiff_t>(at), kUuidBytes, payload.begin());
  if (sets && payload.size() > kVersionAt) payload[kVersionAt] = 1;
}

}  // namespace nearkv::testing
