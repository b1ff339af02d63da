#include "verilated/machine.hpp"

#include <verilated.h>
#if VM_COVERAGE
#include <unistd.h>
#include <verilated_cov.h>

#include <cstdlib>
#include <string>
#endif

#include <algorithm>
#include <array>

#include "Vnkv_engine.h"
#include "Vnkv_shell_1.h"
#include "Vnkv_shell_2.h"
#include "Vnkv_shell_4.h"
#include "nkv_abi.h"

namespace nearkv::emulator {

namespace {

template <typename Wide>
void set_wide(Wide& wide, const Burst& data) {
  for (std::size_t i = 0; i < data.size(); ++i) wide[i] = data[i];
}

template <typename Wide>
Burst burst_of(const Wide& wide) {
  Burst data;
  for (std::size_t i = 0; i < data.size(); ++i) data[i] = wide[i];
  return data;
}

/// What engines tell the shell are registers of theirs, so that one pass over the shell, then over
/// them, settles a cycle.
template <typename Shell, unsigned kSlices>
class MachineOf final : public Machine {
 public:
  explicit MachineOf(std::uint64_t memory_bytes) : Machine(kSlices), shell_(&context_) {
    for (auto& engine : engines_) engine = std::make_unique<Vnkv_engine>(&context_);
    shell_.memory_bytes_i = memory_bytes;
    for (unsigned i = 0; i < kSlices; ++i) {
      shell_.host_w_strb_i[i] = ~std::uint64_t{0};
    }
    reset();
  }
  ~MachineOf() override {
    Verilated::threadContextp(&context_);  // Models that go look there for what they assert.
    shell_.final();
    for (auto& engine : engines_) engine->final();
#if VM_COVERAGE
    write_coverage();
#endif
  }

  void settle() override {
    shell_.csr_req_i = access.is_valid;
    shell_.csr_we_i = access.is_write;
    shell_.csr_addr_i = access.offset;
    shell_.csr_wdata_i = access.value;
    for (unsigned i = 0; i < kSlices; ++i) {
      set_slice(i);
      set_shell(i);
    }
    shell_.clk_i = 0;
    shell_.eval();
    for (unsigned i = 0; i < kSlices; ++i) get_slice(i);
  }

  void clock() override {
    for (unsigned i = 0; i < kSlices; ++i) {
      set_engine(i);
      engines_[i]->clk_i = 0;
      engines_[i]->eval();
      engines_[i]->clk_i = 1;
      engines_[i]->eval();
    }
    shell_.clk_i = 1;
    shell_.eval();
    register_value = shell_.csr_rdata_o;
    register_error = shell_.csr_error_o != 0;
    interrupts = shell_.irq_o;
  }

 private:
  void cycle() {
    settle();
    clock();
  }

  // Reset falls, so that registers whose clock stands are reset as well.
  void reset() {
    constexpr std::array<std::uint8_t, 3> kLevels{1, 0, 1};
    for (const std::uint8_t level : kLevels) {
      shell_.rst_ni = level;
      for (auto& engine : engines_) engine->rst_ni = level;
      shell_.eval();
      for (auto& engine : engines_) engine->eval();
      if (level != 0) continue;
      cycle();
      cycle();
    }
    cycle();
  }

  void set_slice(unsigned i) {
    const SlicePorts& slice = slices[i];
    shell_.ar_ready_i[i] = slice.takes_reads;
    shell_.w_ready_i[i] = slice.takes_addresses && slice.takes_data;
    shell_.host_r_ready_i[i] = slice.host_takes_beats;
    shell_.host_b_ready_i[i] = slice.host_takes_answers;
    shell_.r_valid_i[i] = slice.beat != nullptr;
    if (slice.beat != nullptr) {
      shell_.r_id_i[i] = slice.beat->id;
      shell_.r_poison_i[i] = slice.beat->poison;
      shell_.r_error_i[i] = slice.beat->error;
      set_wide(shell_.r_data_i[i], slice.beat->data);
    }
    shell_.b_valid_i[i] = slice.answer != nullptr;
    if (slice.answer != nullptr) {
      shell_.b_id_i[i] = slice.answer->id;
      shell_.b_error_i[i] = slice.answer->error;
    }
    shell_.host_ar_valid_i[i] = slice.host_read != nullptr;
    if (slice.host_read != nullptr) {
      shell_.host_ar_id_i[i] = slice.host_read->id;
      shell_.host_ar_addr_i[i] = slice.host_read->address;
    }
    shell_.host_w_valid_i[i] = slice.host_write != nullptr;
    if (slice.host_write != nullptr) {
      shell_.host_w_id_i[i] = slice.host_write->id;
      shell_.host_w_addr_i[i] = slice.host_write->address;
      set_wide(shell_.host_w_data_i[i], slice.host_write->data);
    }
  }

  void get_slice(unsigned i) {
    SlicePorts& slice = slices[i];
    slice.reads = shell_.ar_valid_o[i] && slice.takes_reads;
    if (slice.reads) slice.read = {.id = shell_.ar_id_o[i], .address = shell_.ar_addr_o[i]};
    slice.writes = shell_.w_valid_o[i] && slice.takes_addresses && slice.takes_data;
    if (slice.writes) {
      slice.write = {.id = shell_.w_id_o[i],
                     .address = shell_.w_addr_o[i],
                     .strobes = shell_.w_strb_o[i],
                     .data = burst_of(shell_.w_data_o[i])};
    }
    slice.host_read_taken = slice.host_read != nullptr && shell_.host_ar_ready_o[i];
    slice.host_write_taken = slice.host_write != nullptr && shell_.host_w_ready_o[i];
    slice.host_beat.is_valid = shell_.host_r_valid_o[i] && slice.host_takes_beats;
    if (slice.host_beat.is_valid) {
      slice.host_beat.failed = shell_.host_r_error_o[i] || shell_.host_r_poison_o[i];
      slice.host_beat.id = shell_.host_r_id_o[i];
      slice.host_beat.data = burst_of(shell_.host_r_data_o[i]);
    }
    slice.host_settled.is_valid = shell_.host_b_valid_o[i] && slice.host_takes_answers;
    if (slice.host_settled.is_valid) {
      slice.host_settled.failed = shell_.host_b_error_o[i] != 0;
      slice.host_settled.id = shell_.host_b_id_o[i];
    }
  }

#if VM_COVERAGE
  // Into a file of its own: a process makes many machines, and several processes count at once.
  void write_coverage() {
    static unsigned written = 0;
    const char* const folder = std::getenv("NEARKV_RTL_COVERAGE");
    if (folder == nullptr) return;
    const std::string name = std::to_string(::getpid()) + "." + std::to_string(written++);
    context_.coveragep()->write((std::string(folder) + "/" + name + ".dat").c_str());
  }
#endif

  // ---- What nkv_top wires ----
  void set_shell(unsigned i) {
    const Vnkv_engine& engine = *engines_[i];
    shell_.command_ready_i[i] = engine.command_ready_o;
    shell_.outcome_valid_i[i] = engine.outcome_valid_o;
    shell_.fatal_i[i] = engine.fatal_o;
    shell_.engine_quiet_i[i] = engine.quiet_o;
    shell_.engine_ar_valid_i[i] = engine.ar_valid_o;
    shell_.engine_w_valid_i[i] = engine.w_valid_o;
    if (engine.outcome_valid_o) shell_.outcome_i[i] = engine.outcome_o;
    shell_.results_i[i] = engine.results_o;
    if (engine.ar_valid_o) shell_.engine_ar_i[i] = engine.ar_o;
    if (engine.w_valid_o) shell_.engine_w_i[i] = engine.w_o;
  }

  void set_engine(unsigned i) {
    Vnkv_engine& engine = *engines_[i];
    engine.clear_i = shell_.engine_clear_o;
    engine.forfeit_i = shell_.engine_forfeit_o;
    engine.command_valid_i = shell_.command_valid_o[i];
    engine.outcome_ready_i = shell_.outcome_ready_o[i];
    engine.ar_ready_i = shell_.engine_ar_ready_o[i];
    engine.w_ready_i = shell_.engine_w_ready_o[i];
    engine.r_valid_i = shell_.engine_r_valid_o[i];
    engine.b_valid_i = shell_.engine_b_valid_o[i];
    if (engine.command_valid_i) engine.command_i = shell_.command_o[i];
    if (engine.r_valid_i) engine.r_i = shell_.engine_r_o[i];
    if (engine.b_valid_i) engine.b_i = shell_.engine_b_o[i];
  }

  VerilatedContext context_;
  Shell shell_;
  std::array<std::unique_ptr<Vnkv_engine>, kSlices> engines_;
};

}  // namespace

std::span<const unsigned> machine_slices() {
  static constexpr unsigned kSlices[] = {1, 2, 4};
  return kSlices;
}

std::unique_ptr<Machine> make_machine(unsigned slices, std::uint64_t memory_bytes) {
  if (slices == 4) return std::make_unique<MachineOf<Vnkv_shell_4, 4>>(memory_bytes);
  if (slices == 2) return std::make_unique<MachineOf<Vnkv_shell_2, 2>>(memory_bytes);
  return std::make_unique<MachineOf<Vnkv_shell_1, 1>>(memory_bytes);
}

}  // namespace nearkv::emulator
