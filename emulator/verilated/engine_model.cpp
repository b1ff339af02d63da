// The Verilated engine behind the nkv_engine of nkv_engine.sv.
#include <svdpi.h>
#include <verilated.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>

#include "Vnkv_engine.h"

namespace {

/// A packed value from words of 32 bits, and into them.
template <std::size_t kWords>
void set(VlWide<kWords>& port, const svBitVecVal* words) {
  std::copy_n(words, kWords, port.data());
}
template <typename Port>
void set(Port& port, const svBitVecVal* words) {
  port = static_cast<Port>(*words);
}
template <std::size_t kWords>
void get(const VlWide<kWords>& port, svBitVecVal* words) {
  std::copy_n(port.data(), kWords, words);
}

/// All that an engine says in a cycle.
struct Outputs {
  explicit Outputs(const Vnkv_engine& engine)
      : bits{engine.quiet_o, engine.command_ready_o, engine.outcome_valid_o, engine.results_o,
             engine.fatal_o, engine.ar_valid_o,      engine.w_valid_o} {
    get(engine.outcome_o, outcome.data());
    get(engine.ar_o, ar.data());
    get(engine.w_o, w.data());
  }
  bool operator==(const Outputs&) const = default;

  std::array<CData, 7> bits;
  std::array<svBitVecVal, sizeof(Vnkv_engine::outcome_o) / sizeof(svBitVecVal)> outcome;
  std::array<svBitVecVal, sizeof(Vnkv_engine::ar_o) / sizeof(svBitVecVal)> ar;
  std::array<svBitVecVal, sizeof(Vnkv_engine::w_o) / sizeof(svBitVecVal)> w;
};

}  // namespace

// Called by nkv_engine.sv, on whatever thread evaluates the top that it is in.
extern "C" {

void* nkv_engine_model_make() {
  auto engine = std::make_unique<Vnkv_engine>(Verilated::threadContextp());
  engine->rst_ni = 1;  // So that reset falls: registers whose clock stands wait for that.
  engine->eval();
  return engine.release();
}

void nkv_engine_model_free(void* model) {
  auto* const engine = static_cast<Vnkv_engine*>(model);
  engine->final();
  delete engine;
}

void nkv_engine_model_clock(void* model, svBit rst_n, svBit clear, svBit forfeit, svBit* quiet,
                            svBit command_valid, svBit* command_ready, const svBitVecVal* command,
                            svBit* outcome_valid, svBit outcome_ready, svBitVecVal* outcome,
                            svBitVecVal* results, svBit* fatal, svBit* ar_valid, svBit ar_ready,
                            svBitVecVal* ar, svBit r_valid, const svBitVecVal* r, svBit* w_valid,
                            svBit w_ready, svBitVecVal* w, svBit b_valid, const svBitVecVal* b) {
  auto& engine = *static_cast<Vnkv_engine*>(model);
  engine.rst_ni = rst_n;
  engine.clear_i = clear;
  engine.forfeit_i = forfeit;
  engine.command_valid_i = command_valid;
  engine.outcome_ready_i = outcome_ready;
  engine.ar_ready_i = ar_ready;
  engine.r_valid_i = r_valid;
  engine.w_ready_i = w_ready;
  engine.b_valid_i = b_valid;
  if (command_valid != 0) set(engine.command_i, command);
  if (r_valid != 0) set(engine.r_i, r);
  if (b_valid != 0) set(engine.b_i, b);
  const Outputs before(engine);
  engine.clk_i = 0;
  engine.eval();
  if (rst_n != 0 && Outputs(engine) != before) {
    vl_fatal(__FILE__, __LINE__, "nkv_engine", "an output follows inputs within a cycle");
  }
  engine.clk_i = 1;
  engine.eval();
  *quiet = engine.quiet_o;
  *command_ready = engine.command_ready_o;
  *outcome_valid = engine.outcome_valid_o;
  *fatal = engine.fatal_o;
  *ar_valid = engine.ar_valid_o;
  *w_valid = engine.w_valid_o;
  *results = engine.results_o;
  get(engine.outcome_o, outcome);
  get(engine.ar_o, ar);
  get(engine.w_o, w);
}

}  // extern "C"
