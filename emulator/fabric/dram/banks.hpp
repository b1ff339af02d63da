// The rows that a channel's banks have open, and when each may take its next command.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "fabric/dram/timing.hpp"

namespace nearkv::dram {

enum class Operation : std::uint8_t {
  kActivate,
  kRead,
  kWrite,
  kPrecharge,
  kPrechargeSlice,  ///< All banks of a refresh slice.
  kRefresh,         ///< Of a slice whose banks are all closed.
};

struct Command {
  std::uint64_t clock;
  Operation operation;
  unsigned bank;  ///< Of a slice: its number.
  std::uint64_t row;
};

/// Times are clocks since the start. Two-clock commands count from their first clock.
class Banks {
 public:
  explicit Banks(const Timing& timing);

  static constexpr std::uint64_t kClosed = ~std::uint64_t{0};
  /// The bank's open row, or kClosed.
  [[nodiscard]] std::uint64_t row(unsigned bank) const { return banks_[bank].row; }
  [[nodiscard]] bool is_slice_closed(unsigned slice) const;

  /// The first clock at which the command may be issued, as far as those before it go.
  [[nodiscard]] std::uint64_t earliest(Operation operation, unsigned bank) const;
  void issue(const Command& command);

 private:
  struct Bank {
    std::uint64_t row = kClosed;
    std::uint64_t activate = 0;  // Not before; so below.
    std::uint64_t precharge = 0;
    std::uint64_t column = 0;
  };
  struct Group {
    std::uint64_t activate = 0;
    std::uint64_t read = 0;
    std::uint64_t write = 0;
  };

  void activate(const Command& command);
  void read(const Command& command);
  void write(const Command& command);
  void close(Bank* bank, std::uint64_t clock) const;
  void refresh(const Command& command);

  const Timing& timing_;
  std::vector<Bank> banks_;
  std::vector<Group> groups_;
  Group channel_;
  std::array<std::uint64_t, 4> windows_{};  // When each of the last four activations is past.
  std::size_t oldest_window_ = 0;
  std::uint64_t precharge_ = 0;
  std::uint64_t refresh_ = 0;
  std::uint64_t row_bus_ = 0;
  std::uint64_t column_bus_ = 0;
};

}  // namespace nearkv::dram
