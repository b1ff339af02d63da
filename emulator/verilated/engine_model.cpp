// The Verilated engine behind the nkv_engine of nkv_engine.sv.
#include <svdpi.h>
#include <verilated.h>

#include <algorithm>
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

/// outputs_t
std::uint32_t outputs_of(const Vnkv_engine& engine) {
  return std::uint32_t{engine.quiet_o} << 5 | std::uint32_t{engine.command_ready_o} << 4 |
         std::uint32_t{engine.outcome_valid_o} << 3 | std::uint32_t{engine.fatal_o} << 2 |
         std::uint32_t{engine.ar_valid_o} << 1 | std::uint32_t{engine.w_valid_o};
}

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

void nkv_engine_model_clock(void* model, const svBitVecVal* inputs, const svBitVecVal* command,
                            const svBitVecVal* r, const svBitVecVal* b, svBitVecVal* outputs,
                            svBitVecVal* outcome, svBitVecVal* results, svBitVecVal* ar,
                            svBitVecVal* w) {
  auto& engine = *static_cast<Vnkv_engine*>(model);
  const auto input = [inputs](unsigned bit) { return static_cast<CData>(*inputs >> bit & 1); };
  engine.rst_ni = input(8);
  engine.clear_i = input(7);
  engine.forfeit_i = input(6);
  engine.command_valid_i = input(5);
  engine.outcome_ready_i = input(4);
  engine.ar_ready_i = input(3);
  engine.r_valid_i = input(2);
  engine.w_ready_i = input(1);
  engine.b_valid_i = input(0);
  if (engine.command_valid_i != 0) set(engine.command_i, command);
  if (engine.r_valid_i != 0) set(engine.r_i, r);
  if (engine.b_valid_i != 0) set(engine.b_i, b);
  const std::uint32_t before = outputs_of(engine);
  engine.clk_i = 0;
  engine.eval();
  if (engine.rst_ni != 0 && outputs_of(engine) != before) {
    vl_fatal(__FILE__, __LINE__, "nkv_engine", "an output follows inputs within a cycle");
  }
  engine.clk_i = 1;
  engine.eval();
  *outputs = outputs_of(engine);
  *results = engine.results_o;
  get(engine.outcome_o, outcome);
  get(engine.ar_o, ar);
  get(engine.w_o, w);
}

}  // extern "C"
