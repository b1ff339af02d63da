// The host's side of a hotness monitoring unit: registers as the CXL specification has them, and
// what a driver does with them.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <vector>

#include "simulation.hpp"

namespace nearkv::rtl_test {

namespace chmu {

inline constexpr std::uint16_t kCommonCap0 = 0x00;
inline constexpr std::uint16_t kCommonCap1 = 0x08;
inline constexpr std::uint16_t kInstance = 0x10;
inline constexpr std::uint16_t kCap0 = 0x10;
inline constexpr std::uint16_t kCap1 = 0x18;
inline constexpr std::uint16_t kCap2 = 0x20;
inline constexpr std::uint16_t kCap3 = 0x28;
inline constexpr std::uint16_t kConf0 = 0x50;
inline constexpr std::uint16_t kConf1 = 0x58;
inline constexpr std::uint16_t kConf2 = 0x60;
inline constexpr std::uint16_t kStatus = 0x70;
inline constexpr std::uint16_t kHeadTail = 0x78;
inline constexpr std::uint16_t kRanges = 0x80;

inline constexpr std::uint64_t kInterruptOnOverflow = 1U << 9U;
inline constexpr std::uint64_t kInterruptOnLevel = 1U << 10U;
inline constexpr std::uint64_t kEnable = 1U << 16U;
inline constexpr std::uint64_t kResetCounters = 1U << 17U;

inline constexpr std::uint64_t kEnabled = 1;
inline constexpr std::uint64_t kOverflow = std::uint64_t{1} << 40U;
inline constexpr std::uint64_t kLevel = std::uint64_t{1} << 41U;

enum Operation : std::uint8_t { kNone, kEnabling, kDisabling, kResetting };
enum Track : std::uint8_t {
  kNonTeeRead = 1,
  kNonTeeWrite,
  kNonTeeReadWrite,
  kRead,
  kWrite,
  kReadWrite
};
enum Mode : std::uint8_t { kEpochs, kAlwaysOn };

inline constexpr unsigned kCounterWidth = 16;
inline constexpr std::uint64_t kBlock = std::uint64_t{1} << 28U;

/// What a driver asks for.
struct Configuration {
  std::uint64_t track = kReadWrite;
  std::uint64_t threshold = 4;
  std::uint64_t unit_log2 = 16;
  std::uint64_t down_sampling = 0;
  bool randomize = false;
  std::uint64_t mode = kEpochs;
  std::uint64_t epoch_scale = 5;
  std::uint64_t epoch_value = 1;
  std::uint64_t notification = 8;
  std::uint64_t interrupts = 0;

  [[nodiscard]] std::uint64_t conf0() const {
    return track | (randomize ? 1U << 8U : 0U) | interrupts | threshold << 32U;
  }
  [[nodiscard]] std::uint64_t conf1() const {
    return unit_log2 | down_sampling << 32U | mode << 40U | epoch_scale << 48U | epoch_value << 52U;
  }
};

struct Entry {
  std::uint64_t unit;
  std::uint64_t count;
  bool operator==(const Entry&) const = default;
};

}  // namespace chmu

template <typename Module>
class Monitor {
 public:
  Monitor() {
    simulation_->access_valid_i = 0;
    simulation_->req_i = 0;
    simulation_.reset();
  }

  /// One cycle; interrupts are counted.
  void tick() {
    simulation_.tick();
    interrupts_ += simulation_->interrupt_o;
    simulation_->access_valid_i = 0;
    simulation_->req_i = 0;
  }
  void ticks(unsigned count) {
    while (count-- > 0) tick();
  }
  void hard_reset() { simulation_.reset(); }

  void put_access(std::uint64_t dpa, bool is_write = false) {
    simulation_->access_valid_i = 1;
    simulation_->access_i = dpa | std::uint64_t{is_write} << 52U;
  }
  void access(std::uint64_t dpa, bool is_write = false) {
    put_access(dpa, is_write);
    tick();
  }
  void accesses(std::uint64_t dpa, unsigned count, bool is_write = false) {
    while (count-- > 0) access(dpa, is_write);
  }

  std::uint64_t read(std::uint16_t offset) {
    simulation_->req_i = 1;
    simulation_->we_i = 0;
    simulation_->addr_i = offset;
    tick();
    return simulation_->rdata_o;
  }
  void put_write(std::uint16_t offset, std::uint64_t data, std::uint8_t strobes = 0xff) {
    simulation_->req_i = 1;
    simulation_->we_i = 1;
    simulation_->addr_i = offset;
    simulation_->wdata_i = data;
    simulation_->strobes_i = strobes;
  }
  void write(std::uint16_t offset, std::uint64_t data, std::uint8_t strobes = 0xff) {
    put_write(offset, data, strobes);
    tick();
  }

  std::uint64_t status() { return read(chmu::kStatus); }
  unsigned operation() { return static_cast<unsigned>(status() >> 16U & 0xffffU); }
  unsigned head() { return static_cast<unsigned>(read(chmu::kHeadTail) & 0xffffU); }
  unsigned tail() { return static_cast<unsigned>(read(chmu::kHeadTail) >> 16U & 0xffffU); }
  void set_head(unsigned head) { write(chmu::kHeadTail, head, 0x03); }

  /// Polls until no operation is in progress; false where that takes too long.
  [[nodiscard]] bool settle() {
    for (unsigned i = 0; i < 100'000; ++i) {
      if (operation() == chmu::kNone) return true;
    }
    return false;
  }

  /// What a driver does before it listens: reset, configure, enable, each polled for.
  void start(const chmu::Configuration& configuration, std::uint64_t blocks = ~std::uint64_t{0}) {
    write(chmu::kConf0, chmu::kResetCounters);
    ASSERT_TRUE(settle());
    write(chmu::kConf1, configuration.conf1());
    write(chmu::kRanges, blocks);
    write(chmu::kConf2, configuration.notification);
    write(chmu::kConf0, configuration.conf0() | chmu::kEnable);
    ASSERT_TRUE(settle());
  }
  [[nodiscard]] bool stop() {
    write(chmu::kConf0, read(chmu::kConf0) & ~chmu::kEnable);
    return settle();
  }

  /// Takes all entries of the hot list, as a driver does.
  std::vector<chmu::Entry> take() {
    const std::uint16_t list = static_cast<std::uint16_t>(chmu::kInstance + read(chmu::kCap3));
    const auto size = static_cast<unsigned>(read(chmu::kCap0) >> 48U);
    unsigned at = head();
    const unsigned end = tail();
    std::vector<chmu::Entry> entries;
    for (; at != end; at = (at + 1) % size) {
      const std::uint64_t entry = read(static_cast<std::uint16_t>(list + 8 * at));
      entries.push_back({entry >> chmu::kCounterWidth, entry & 0xffffU});
    }
    set_head(end);
    return entries;
  }

  /// Lets what is under way reach the hot list.
  void drain() { ticks(16); }

  /// Interrupts since it was last asked.
  unsigned interrupts() {
    const unsigned count = interrupts_;
    interrupts_ = 0;
    return count;
  }

 private:
  Simulation<Module> simulation_;
  unsigned interrupts_ = 0;
};

}  // namespace nearkv::rtl_test
