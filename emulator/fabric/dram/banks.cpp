#include "fabric/dram/banks.hpp"

#include <algorithm>

namespace nearkv::dram {
namespace {

void delay(std::uint64_t* time, std::uint64_t to) { *time = std::max(*time, to); }

}  // namespace

Banks::Banks(const Timing& timing)
    : timing_(timing), banks_(timing.bank_count()), groups_(timing.groups) {}

bool Banks::is_slice_closed(unsigned slice) const {
  for (unsigned bank = 0; bank < banks_.size(); ++bank) {
    if (timing_.slice_of(bank) == slice && banks_[bank].row != kClosed) return false;
  }
  return true;
}

std::uint64_t Banks::earliest(Operation operation, unsigned bank) const {
  if (operation == Operation::kPrechargeSlice || operation == Operation::kRefresh) {
    const bool refreshes = operation == Operation::kRefresh;
    std::uint64_t time = std::max(row_bus_, refreshes ? refresh_ : precharge_);
    for (unsigned i = 0; i < banks_.size(); ++i) {
      if (timing_.slice_of(i) != bank) continue;
      delay(&time, refreshes ? banks_[i].activate : banks_[i].precharge);
    }
    return time;
  }
  const Bank& state = banks_[bank];
  const Group& group = groups_[timing_.group_of(bank)];
  switch (operation) {
    case Operation::kActivate:
      return std::max(
          {state.activate, group.activate, channel_.activate, windows_[oldest_window_], row_bus_});
    case Operation::kRead:
      return std::max({state.column, group.read, channel_.read, column_bus_});
    case Operation::kWrite:
      return std::max({state.column, group.write, channel_.write, column_bus_});
    default:
      return std::max({state.precharge, precharge_, row_bus_});
  }
}

void Banks::issue(const Command& command) {
  const bool is_column =
      command.operation == Operation::kRead || command.operation == Operation::kWrite;
  const unsigned clocks = is_column                                   ? timing_.clocks_column
                          : command.operation == Operation::kActivate ? timing_.clocks_activate
                                                                      : 1;
  if (is_column || !timing_.has_row_bus) column_bus_ = command.clock + clocks;
  if (!is_column || !timing_.has_row_bus) row_bus_ = command.clock + clocks;
  switch (command.operation) {
    case Operation::kActivate:
      return activate(command);
    case Operation::kRead:
      return read(command);
    case Operation::kWrite:
      return write(command);
    case Operation::kPrecharge:
      close(&banks_[command.bank], command.clock);
      precharge_ = command.clock + timing_.ppd;
      return;
    case Operation::kPrechargeSlice:
      for (unsigned i = 0; i < banks_.size(); ++i) {
        if (timing_.slice_of(i) == command.bank) close(&banks_[i], command.clock);
      }
      precharge_ = command.clock + timing_.ppd;
      return;
    case Operation::kRefresh:
      return refresh(command);
  }
}

void Banks::activate(const Command& command) {
  Bank& bank = banks_[command.bank];
  bank.row = command.row;
  bank.column = command.clock + timing_.rcd;
  delay(&bank.precharge, command.clock + timing_.ras);
  channel_.activate = command.clock + timing_.rrd_s;
  delay(&groups_[timing_.group_of(command.bank)].activate, command.clock + timing_.rrd_l);
  delay(&refresh_, command.clock + timing_.rrd_l);
  windows_[oldest_window_] = command.clock + timing_.faw;
  oldest_window_ = (oldest_window_ + 1) % windows_.size();
}

void Banks::read(const Command& command) {
  Group& group = groups_[timing_.group_of(command.bank)];
  delay(&channel_.read, command.clock + timing_.ccd_s);
  delay(&group.read, command.clock + timing_.ccd_l);
  delay(&channel_.write, command.clock + timing_.rtw);
  delay(&banks_[command.bank].precharge, command.clock + timing_.rtp);
}

void Banks::write(const Command& command) {
  Group& group = groups_[timing_.group_of(command.bank)];
  const std::uint64_t written = command.clock + timing_.cwl + timing_.burst;
  delay(&channel_.write, command.clock + timing_.ccd_s_wr);
  delay(&group.write, command.clock + timing_.ccd_l_wr);
  delay(&channel_.read, written + timing_.wtr_s);
  delay(&group.read, written + timing_.wtr_l);
  delay(&banks_[command.bank].precharge, written + timing_.wr);
}

void Banks::close(Bank* bank, std::uint64_t clock) const {
  if (bank->row == kClosed) return;
  bank->row = kClosed;
  delay(&bank->activate, clock + timing_.rp);
}

void Banks::refresh(const Command& command) {
  for (unsigned i = 0; i < banks_.size(); ++i) {
    const bool is_in = timing_.slice_of(i) == command.bank;
    delay(&banks_[i].activate,
          command.clock + (is_in ? timing_.refresh.duration : timing_.refresh.spacing));
  }
  delay(&refresh_, command.clock + timing_.refresh.duration);
}

}  // namespace nearkv::dram
