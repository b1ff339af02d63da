// A hotness monitor that is played: registers as rtl/monitor/README.md has them, exact counters.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <vector>

#include "nkv_abi.h"

namespace nearkv::testing {

class Monitor {
 public:
  static constexpr std::uint32_t kInstance = 0x10;
  static constexpr std::uint32_t kConf0 = kInstance + 0x40;
  static constexpr std::uint32_t kConf1 = kInstance + 0x48;
  static constexpr std::uint32_t kStatus = kInstance + 0x60;
  static constexpr std::uint32_t kHeadTail = kInstance + 0x68;
  static constexpr std::uint64_t kEnable = 1 << 16;
  static constexpr std::uint64_t kOverflow = std::uint64_t{1} << 40;

  explicit Monitor(std::uint32_t entries = 1024) : entries_(entries), list_(entries) {}

  /// Its registers, by the offset in its block. An operation takes so many reads of STATUS.
  std::uint64_t read(std::uint32_t at) {
    switch (at) {
      case 0x00:
        return version | 1 << 8;
      case 0x10:
        return std::uint64_t{entries_} << 48 | std::uint64_t{1} << 36 | std::uint64_t{1} << 32 |
               std::uint64_t{0xFFF} << 20 | std::uint64_t{longest_scale} << 16 | 0x3F << 8;
      case 0x18:
        return unit_sizes | std::uint64_t{0xFFFF} << 32 | std::uint64_t{has_epochs} << 48;
      case 0x20:
        return kRanges - kInstance;
      case 0x28:
        return kList - kInstance;
      case kConf0:
        return conf0_;
      case kConf1:
        return conf1_;
      case kStatus:
        return read_status();
      case kHeadTail:
        return head_ | std::uint64_t{tail_} << 16;
      default:
        break;
    }
    if (at >= kRanges && at < kList) return ranges_.at((at - kRanges) / 8);
    if (at >= kList && at < kList + 8 * entries_) return list_.at((at - kList) / 8);
    return 0;
  }

  void write(std::uint32_t at, std::uint64_t value) {
    const bool is_locked = is_enabled_ || operation_ != 0 || (conf0_ & kEnable) != 0;
    if (at == kConf0) {
      const std::uint64_t kept = is_locked ? ~(kEnable | 0x600) : 0;
      conf0_ = (conf0_ & kept) | (value & ~kept & ~(std::uint64_t{1} << 17));
      const bool wants = (conf0_ & kEnable) != 0;
      if (wants != is_enabled_) {
        operation_ = wants ? 1 : 2;
        reads_left_ = operation_reads;
        if (reads_left_ == 0) end_operation();
      } else {
        operation_ = 0;
      }
    } else if (at == kConf1 && !is_locked) {
      conf1_ = value;
    } else if (at == kStatus && (value & kOverflow) != 0) {
      has_lost_ = false;
    } else if (at == kHeadTail && (value & 0xFFFF) < entries_) {
      head_ = static_cast<std::uint32_t>(value & 0xFFFF);
    } else if (at >= kRanges && at < kList && !is_locked) {
      ranges_.at((at - kRanges) / 8) = value;
    }
  }

  void access(std::uint64_t address) {
    const std::uint64_t block = address >> 28;
    if (!is_enabled_ || (ranges_.at(block / 64) >> block % 64 & 1) == 0) return;
    const std::uint64_t unit = address >> (conf1_ & 0x3F);
    const std::uint64_t threshold = std::max<std::uint64_t>(1, conf0_ >> 32);
    if (++counts_[unit] != threshold) return;
    if ((tail_ + 1) % entries_ == head_) {
      has_lost_ = true;
      return;
    }
    list_.at(tail_) = unit << 16 | threshold;
    tail_ = (tail_ + 1) % entries_;
  }

  void pass(std::uint64_t ns) {
    if (!is_enabled_) return;
    std::uint64_t epoch_ns = 100'000 * (conf1_ >> 52);
    for (std::uint64_t scale = conf1_ >> 48 & 0xF; scale > 1; --scale) epoch_ns *= 10;
    passed_ns_ += ns;
    if (passed_ns_ < epoch_ns) return;
    passed_ns_ -= epoch_ns;
    counts_.clear();
  }

  [[nodiscard]] bool is_enabled() const { return is_enabled_; }
  [[nodiscard]] std::uint64_t conf0() const { return conf0_; }
  [[nodiscard]] std::uint64_t conf1() const { return conf1_; }
  [[nodiscard]] std::uint64_t threshold() const { return conf0_ >> 32; }
  [[nodiscard]] std::uint64_t used() const { return (tail_ + entries_ - head_) % entries_; }

  std::uint64_t version = 1;
  std::uint64_t unit_sizes = 3 << 4;
  std::uint64_t longest_scale = 5;
  bool has_epochs = true;
  std::uint64_t largest_threshold = (1 << 14) - 1;
  unsigned operation_reads = 3;
  static constexpr unsigned kNever = ~0U;  ///< Of operation_reads.

 private:
  static constexpr std::uint32_t kRanges = 0x80;
  static constexpr std::uint32_t kList = kRanges + 6 * 8;

  std::uint64_t read_status() {
    const std::uint64_t status = std::uint64_t{is_enabled_} | std::uint64_t{operation_} << 16 |
                                 std::uint64_t{16} << 32 | (has_lost_ ? kOverflow : 0);
    if (operation_ != 0 && reads_left_ != kNever) {
      --reads_left_;
      if (reads_left_ == 0) end_operation();
    }
    return status;
  }

  void end_operation() {
    const std::uint64_t unit = (conf1_ & 0xFFFFFFFF) - 8;
    const bool is_possible = unit < 32 && (unit_sizes >> unit & 1) != 0 && has_epochs &&
                             conf0_ >> 32 <= largest_threshold;
    is_enabled_ = operation_ == 1 && is_possible;
    if (!is_enabled_) conf0_ &= ~kEnable;
    operation_ = 0;
    passed_ns_ = 0;
    counts_.clear();
  }

  std::uint32_t entries_;
  std::uint64_t conf0_ = 0, conf1_ = 0;
  bool is_enabled_ = false;
  bool has_lost_ = false;
  unsigned operation_ = 0;
  unsigned reads_left_ = 0;
  std::uint32_t head_ = 0, tail_ = 0;
  std::array<std::uint64_t, 6> ranges_{};
  std::vector<std::uint64_t> list_;
  std::map<std::uint64_t, std::uint64_t> counts_;
  std::uint64_t passed_ns_ = 0;
};

}  // namespace nearkv::testing
