// A card whose two monitors are played here, with traffic and a host's driver that may take them.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <random>
#include <set>

#include "card.hpp"
#include "features.hpp"
#include "monitor.hpp"

namespace nearkv::testing {

inline constexpr unsigned kHost = NKV_CARD_MONITOR_HOST;
inline constexpr unsigned kNear = NKV_CARD_MONITOR_NEAR;
inline constexpr std::uint64_t kMs = 1'000'000;
inline constexpr std::uint64_t kBlockBytes = 8 * NKV_HOTNESS_WORDS;
inline constexpr std::uint64_t kUnitBytes = 4096;

/// Units by a Zipf law, far from each other.
class Traffic {
 public:
  static std::uint64_t address(std::uint64_t rank) {
    return rank * 7919 % 200'000 * kUnitBytes + rank % 64 * 64;
  }
  std::uint64_t next() {
    static const std::vector<double> sums = make_sums();
    const double at = static_cast<double>(random_()) * 0x1p-64 * sums.back();
    return address(static_cast<std::uint64_t>(std::ranges::upper_bound(sums, at) - sums.begin()));
  }

 private:
  static std::vector<double> make_sums() {
    std::vector<double> sums;
    for (unsigned rank = 1; rank <= 20'000; ++rank) {
      sums.push_back((sums.empty() ? 0 : sums.back()) + 1.0 / rank);
    }
    return sums;
  }

  std::mt19937_64 random_{7};
};

/// A card with two monitors, and a host's driver that may take them.
class World {
 public:
  static nkv_hotness_setting off() {
    return {.enabled = 0, .unit_log2 = 12, .epoch_ms = 100, .units = 32, .reserved = 0};
  }
  static nkv_hotness_setting on(std::uint16_t epoch_ms = 10, std::uint16_t units = 32) {
    return {.enabled = 1, .unit_log2 = 12, .epoch_ms = epoch_ms, .units = units, .reserved = 0};
  }

  World() {
    card.play = [this](std::uint32_t offset, std::uint64_t* value, bool is_write) {
      return access(offset, value, is_write);
    };
    while (card.turn()) {
    }
    accesses = 0;
  }

  Monitor monitors[2];
  Card card;
  unsigned accesses = 0;        ///< Of the firmware to monitors.
  unsigned writes[2] = {0, 0};  ///< Of these, by monitor.
  unsigned reads[2] = {0, 0};   ///< So too.
  /// Before the access of this number; whether it is then answered.
  std::function<bool(unsigned number)> before = [](unsigned) { return true; };
  Traffic traffic;
  unsigned accesses_per_ms = 0;  ///< Of traffic, to both monitors.

  nkv_cci_status set(unsigned which, const nkv_hotness_setting& setting) {
    settings_[which] = setting;
    return set_both(settings_[0], settings_[1]);
  }
  nkv_cci_status set_both(const nkv_hotness_setting& host, const nkv_hotness_setting& near) {
    std::vector<std::uint8_t> bytes(2 * sizeof(host));
    std::memcpy(bytes.data(), &host, sizeof(host));
    std::memcpy(bytes.data() + sizeof(host), &near, sizeof(near));
    return set_feature(card, feature(), NKV_CCI_TRANSFER_FULL, 0, bytes);
  }
  nkv_hotness_status status(unsigned which) {
    const Answer answer = get_feature(card, feature(), 16 + 8 * which, 8);
    nkv_hotness_status status{};
    EXPECT_EQ(answer.bytes.size(), sizeof(status));
    std::memcpy(&status, answer.bytes.data(), std::min(answer.bytes.size(), sizeof(status)));
    return status;
  }
  nkv_hotness_state state(unsigned which) {
    return static_cast<nkv_hotness_state>(status(which).state);
  }
  nkv_hotness_list list(unsigned which) {
    const Answer logs = card.execute(NKV_CCI_OPCODE_GET_SUPPORTED_LOGS);
    const std::size_t entry = 8 + 20 * std::size_t{NKV_CARD_LOG_HOTNESS};
    EXPECT_EQ(logs.number(entry + 16, 4), 2 * sizeof(nkv_hotness_list));
    const std::span uuid(logs.bytes.data() + entry, 16);
    const Answer answer =
        card.execute(NKV_CCI_OPCODE_GET_LOG,
                     log_part(uuid, which * sizeof(nkv_hotness_list), sizeof(nkv_hotness_list)));
    nkv_hotness_list list{};
    EXPECT_EQ(answer.bytes.size(), sizeof(list));
    std::memcpy(&list, answer.bytes.data(), std::min(answer.bytes.size(), sizeof(list)));
    return list;
  }

  /// A turn of the firmware's loop, of so few accesses that a host does not notice.
  bool turn() {
    const unsigned first = accesses;
    const bool did = card.turn();
    EXPECT_LE(accesses - first, 12U);
    return did;
  }
  /// Time passes with traffic and turns.
  void run(std::uint64_t ns, std::uint64_t step_ns = kMs / 10) {
    for (const std::uint64_t end = card.uptime_ns + ns; card.uptime_ns < end;) {
      card.uptime_ns += step_ns;
      for (Monitor& monitor : monitors) monitor.pass(step_ns);
      for (unsigned i = 0; i < accesses_per_ms * step_ns / kMs; ++i) {
        const std::uint64_t address = traffic.next();
        for (Monitor& monitor : monitors) monitor.access(address);
      }
      // While it waits for an operation there is nothing to do, and it looks.
      for (unsigned idle = 0, i = 0; i < 60 && idle < 6; ++i) idle = turn() ? 0 : idle + 1;
    }
  }
  /// The same without traffic, and with less of a look.
  void pause(std::uint64_t ns) {
    accesses_per_ms = 0;
    run(ns, kMs);
  }
  /// Until the monitor has counted so many epochs.
  bool run_epochs(unsigned which, unsigned epochs) {
    for (unsigned ms = 0; ms < 20'000 && list(which).epochs < epochs; ++ms) run(kMs);
    return list(which).epochs >= epochs;
  }

  /// As a driver starts and stops a monitor.
  static constexpr std::uint64_t kConf0 = std::uint64_t{500} << 32 | 6;
  static constexpr std::uint64_t kConf1 =
      13 | std::uint64_t{4} << 48 | std::uint64_t{1} << 52;  // 8 KiB, 100 ms.
  void take(unsigned which, std::uint64_t conf0 = kConf0, std::uint64_t conf1 = kConf1) {
    Monitor& monitor = monitors[which];
    stop(which);
    monitor.write(Monitor::kHeadTail, monitor.read(Monitor::kHeadTail) >> 16);
    for (unsigned word = 0; word < 6; ++word) monitor.write(0x80 + 8 * word, 1);
    monitor.write(Monitor::kConf1, conf1);
    monitor.write(Monitor::kConf0, conf0 | Monitor::kEnable);
    settle(which);
  }
  void stop(unsigned which) {
    monitors[which].write(Monitor::kConf0, 0);
    settle(which);
  }

  Feature feature() { return find_feature(card, NKV_CARD_FEATURE_HOTNESS); }

 private:
  bool access(std::uint32_t offset, std::uint64_t* value, bool is_write) {
    *value = is_write ? *value : offset == NKV_REG_ID ? NKV_ABI_ID : 0;
    for (unsigned which = 0; which < 2; ++which) {
      const std::uint32_t block =
          which == kHost ? NKV_REG_HOST_HOTNESS(0) : NKV_REG_NEAR_HOTNESS(0);
      if (offset < block || offset >= block + kBlockBytes) continue;
      if (!before(accesses++)) return false;
      if (!is_write) {
        ++reads[which];
        *value = monitors[which].read(offset - block);
        continue;
      }
      ++writes[which];
      monitors[which].write(offset - block, *value);
    }
    return true;
  }
  void settle(unsigned which) {
    for (unsigned i = 0; i < 10; ++i) monitors[which].read(Monitor::kStatus);
  }

  nkv_hotness_setting settings_[2] = {off(), off()};
};

}  // namespace nearkv::testing
