#include "dram_rules.hpp"

#include <algorithm>
#include <deque>
#include <map>

namespace nearkv::test {
namespace {

using dram::Command;
using dram::Operation;
using dram::Timing;

class Checker {
 public:
  explicit Checker(const Timing& timing) : timing_(timing) {}

  std::vector<std::string> check(std::span<const Command> commands) {
    for (const Command& command : commands) {
      check_state(command);
      while (!recent_.empty() && recent_.front().clock + horizon() < command.clock) {
        recent_.pop_front();
      }
      for (const Command& earlier : recent_) check_pair(earlier, command);
      check_four_activations(command);
      check_data(command);
      if (command.operation == Operation::kRefresh) check_interval(command);
      recent_.push_back(command);
    }
    return broken_;
  }

 private:
  [[nodiscard]] std::uint64_t horizon() const {
    return timing_.refresh.duration + timing_.ras + timing_.rp + timing_.cwl + timing_.burst +
           timing_.wr;
  }

  static bool is_column(Operation operation) {
    return operation == Operation::kRead || operation == Operation::kWrite;
  }
  static bool is_precharge(Operation operation) {
    return operation == Operation::kPrecharge || operation == Operation::kPrechargeSlice;
  }
  static bool is_of_slice(Operation operation) {
    return operation == Operation::kPrechargeSlice || operation == Operation::kRefresh;
  }

  /// All banks, or the bank of this number in every group.
  [[nodiscard]] bool is_in_slice(unsigned bank, unsigned slice) const {
    return timing_.refresh.slices == 1 || bank / timing_.groups == slice;
  }
  [[nodiscard]] bool share_a_bank(const Command& a, const Command& b) const {
    if (is_of_slice(a.operation) && is_of_slice(b.operation)) return a.bank == b.bank;
    if (is_of_slice(a.operation)) return is_in_slice(b.bank, a.bank);
    if (is_of_slice(b.operation)) return is_in_slice(a.bank, b.bank);
    return a.bank == b.bank;
  }
  [[nodiscard]] bool share_a_group(const Command& a, const Command& b) const {
    return a.bank % timing_.groups == b.bank % timing_.groups;
  }

  void complain(const std::string& rule, const Command& command) {
    broken_.push_back(rule + " at clock " + std::to_string(command.clock));
  }

  void check_pair(const Command& earlier, const Command& later) {
    const bool share_bus =
        !timing_.has_row_bus || is_column(earlier.operation) == is_column(later.operation);
    if (share_bus) demand("command bus", bus_clocks(earlier.operation), earlier, later);
    check_gaps(earlier, later);
  }

  void demand(const char* rule, std::uint64_t clocks, const Command& earlier,
              const Command& later) {
    if (later.clock < earlier.clock + clocks) complain(rule, later);
  }

  [[nodiscard]] unsigned bus_clocks(Operation operation) const {
    if (is_column(operation)) return timing_.clocks_column;
    return operation == Operation::kActivate ? timing_.clocks_activate : 1;
  }

  void check_gaps(const Command& earlier, const Command& later) {
    const Timing& t = timing_;
    const bool same_bank = share_a_bank(earlier, later);
    const bool same_group = share_a_group(earlier, later);
    const std::uint64_t written = t.cwl + t.burst;
    const auto need = [&](const char* rule, std::uint64_t clocks) {
      demand(rule, clocks, earlier, later);
    };
    switch (earlier.operation) {
      case Operation::kActivate:
        if (later.operation == Operation::kActivate) {
          need("tRRD_S", t.rrd_s);
          if (same_group) need("tRRD_L", t.rrd_l);
          if (same_bank) need("tRC", t.ras + t.rp);
        }
        if (is_column(later.operation) && same_bank) need("tRCD", t.rcd);
        if (is_precharge(later.operation) && same_bank) need("tRAS", t.ras);
        if (later.operation == Operation::kRefresh) need("tRRD_L", t.rrd_l);
        break;
      case Operation::kRead:
        if (later.operation == Operation::kRead) {
          need("tCCD_S", t.ccd_s);
          if (same_group) need("tCCD_L", t.ccd_l);
        }
        if (later.operation == Operation::kWrite) need("tRTW", t.rtw);
        if (is_precharge(later.operation) && same_bank) need("tRTP", t.rtp);
        break;
      case Operation::kWrite:
        if (later.operation == Operation::kWrite) {
          need("tCCD_S_WR", t.ccd_s_wr);
          if (same_group) need("tCCD_L_WR", t.ccd_l_wr);
        }
        if (later.operation == Operation::kRead) {
          need("tWTR_S", written + t.wtr_s);
          if (same_group) need("tWTR_L", written + t.wtr_l);
        }
        if (is_precharge(later.operation) && same_bank) need("tWR", written + t.wr);
        break;
      case Operation::kPrecharge:
      case Operation::kPrechargeSlice:
        if (later.operation == Operation::kActivate && same_bank) need("tRP", t.rp);
        if (later.operation == Operation::kRefresh && same_bank) need("tRP", t.rp);
        if (is_precharge(later.operation)) need("tPPD", t.ppd);
        break;
      case Operation::kRefresh:
        if (later.operation == Operation::kActivate) {
          need(same_bank ? "tRFC" : "tREFSBRD", same_bank ? t.refresh.duration : t.refresh.spacing);
        }
        if (later.operation == Operation::kRefresh) need("tRFC", t.refresh.duration);
        break;
    }
  }

  void check_state(const Command& command) {
    const auto open = rows_.find(command.bank);
    switch (command.operation) {
      case Operation::kActivate:
        if (open != rows_.end()) complain("activation of an open bank", command);
        rows_[command.bank] = command.row;
        return;
      case Operation::kRead:
      case Operation::kWrite:
        if (open == rows_.end() || open->second != command.row) complain("closed row", command);
        return;
      case Operation::kPrecharge:
        rows_.erase(command.bank);
        return;
      case Operation::kPrechargeSlice:
        std::erase_if(rows_, [&](const auto& row) { return is_in_slice(row.first, command.bank); });
        return;
      case Operation::kRefresh:
        for (const auto& [bank, row] : rows_) {
          if (is_in_slice(bank, command.bank)) complain("refresh of an open bank", command);
        }
        return;
    }
  }

  void check_four_activations(const Command& command) {
    if (command.operation != Operation::kActivate) return;
    activations_.push_back(command.clock);
    if (activations_.size() < 5) return;
    if (activations_.back() - activations_.front() < timing_.faw) complain("tFAW", command);
    activations_.pop_front();
  }

  void check_data(const Command& command) {
    if (!is_column(command.operation)) return;
    const bool reads = command.operation == Operation::kRead;
    const std::uint64_t begin = command.clock + (reads ? timing_.cl : timing_.cwl);
    if (begin < data_end_) complain("data bus", command);
    data_end_ = std::max(data_end_, begin + timing_.burst);
  }

  /// Slices in turn, each refresh within an interval after it is due.
  void check_interval(const Command& command) {
    if (command.bank != refreshes_ % timing_.refresh.slices) complain("slice's turn", command);
    const std::uint64_t due = (refreshes_ + 1) * timing_.refresh.interval;
    if (command.clock < due || command.clock > due + timing_.refresh.interval) {
      complain("tREFI", command);
    }
    ++refreshes_;
  }

  const Timing& timing_;
  std::deque<Command> recent_;
  std::map<unsigned, std::uint64_t> rows_;
  std::deque<std::uint64_t> activations_;
  std::uint64_t data_end_ = 0;
  std::uint64_t refreshes_ = 0;
  std::vector<std::string> broken_;
};

}  // namespace

std::vector<std::string> broken_rules(const Timing& timing, std::span<const Command> commands) {
  return Checker(timing).check(commands);
}

}  // namespace nearkv::test
