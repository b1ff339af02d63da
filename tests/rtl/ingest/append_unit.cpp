#include "append_unit.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <set>

#include "support/elements.hpp"

namespace nearkv::rtl_test {

namespace {

constexpr std::uint64_t kMostCycles = 400000;

nkv_page_shape page_shape(const AppendShape& shape) {
  nkv_page_shape page{};
  page.k_form = shape.k_form;
  page.v_form = shape.v_form;
  page.dtype = shape.dtype;
  page.flags = shape.key_scales ? NKV_PAGE_FLAG_KEY_SCALES : 0;
  page.head_dim = shape.head_dim;
  page.value_dim = shape.value_dim;
  return page;
}

/// Elements of one row; channels differ in size.
std::vector<std::byte> random_row(const AppendShape& shape, std::size_t dim, test::Random& random) {
  std::normal_distribution<double> normal;
  std::vector<std::uint32_t> patterns(dim);
  const unsigned bits = 8 * nkv_element_bytes(shape.dtype);
  for (std::size_t channel = 0; channel < dim; ++channel) {
    const double size = std::ldexp(1.0, static_cast<int>(channel * 7 % 5) - 2);
    patterns[channel] = shape.any_patterns ? static_cast<std::uint32_t>(random()) >> (32 - bits)
                                           : test::encode(shape.dtype, size * normal(random));
  }
  return test::to_bytes(shape.dtype, patterns);
}

}  // namespace

std::string AppendShape::name() const {
  return "dtype " + std::to_string(dtype) + ", forms " + std::to_string(k_form) + " " +
         std::to_string(v_form) + ", dims " + std::to_string(head_dim) + " " +
         std::to_string(value_dim) + ", gap " + std::to_string(gap_bytes) + ", skew " +
         std::to_string(skew_bytes) + (key_scales ? ", key scales" : "") +
         (any_patterns ? ", any patterns" : "");
}

std::uint32_t AppendShape::page_bytes() const {
  const nkv_page_shape shape = page_shape(*this);
  struct nkv_page_layout layout{};
  nkv_lay_out_page(&shape, &layout);
  return layout.total_bytes;
}

AppendShape random_append_shape(test::Random& random) {
  constexpr std::uint8_t kTypes[] = {NKV_DTYPE_BF16, NKV_DTYPE_BF16,     NKV_DTYPE_FP16,
                                     NKV_DTYPE_INT8, NKV_DTYPE_FP8_E4M3, NKV_DTYPE_FP8_E5M2};
  AppendShape shape;
  shape.dtype = kTypes[test::pick(random, 0, 5)];
  shape.head_dim = static_cast<std::uint16_t>(16 * test::pick(random, 1, 8));
  shape.value_dim = static_cast<std::uint16_t>(16 * test::pick(random, 1, 8));
  if (shape.dtype == NKV_DTYPE_BF16) {
    if (random() % 2 == 0) shape.k_form = NKV_ROW_FORM_DELTA4;
    if (random() % 2 == 0) shape.v_form = NKV_ROW_FORM_DELTA4;
  }
  if (random() % 4 == 0) {
    shape.v_form = NKV_ROW_FORM_NONE;
    shape.value_dim = static_cast<std::uint16_t>(16 * test::pick(random, 0, shape.head_dim / 16));
  }
  shape.key_scales = random() % 4 == 0;
  shape.gap_bytes = random() % 2 == 0 ? 0 : test::pick(random, 1, 200);
  shape.skew_bytes = random() % 2 == 0 ? 0 : test::pick(random, 1, 63);
  shape.any_patterns = random() % 4 == 0;
  return shape;
}

AppendUnit::AppendUnit(emulator::MemoryTiming timing)
    : bytes_(kWindowBase + kWindowBytes),
      model_bytes_(bytes_.size()),
      axi_(bytes_, timing),
      random_(test::case_random(77)) {
  power_up();
}

std::span<std::byte> AppendUnit::window() { return std::span(bytes_).subspan(kWindowBase); }
std::span<std::byte> AppendUnit::models_window() {
  return std::span(model_bytes_).subspan(kWindowBase);
}

std::uint64_t AppendUnit::allocate(std::uint64_t bytes, std::uint64_t alignment) {
  const std::uint64_t address = (next_ + alignment - 1) / alignment * alignment;
  next_ = address + bytes;
  EXPECT_LE(next_, kWindowBytes);
  return address;
}

void AppendUnit::put_bytes(std::uint64_t address, std::span<const std::byte> bytes) {
  std::ranges::copy(bytes, window().subspan(address).begin());
  std::ranges::copy(bytes, models_window().subspan(address).begin());
}

nkv_append_command AppendUnit::prepare(const AppendShape& shape, std::uint32_t pages,
                                       test::Random& random) {
  // What lies where pages go is garbage.
  for (std::size_t at = 0; at < bytes_.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t garbage = random();
    std::memcpy(&bytes_[at], &garbage, sizeof(garbage));
  }
  model_bytes_ = bytes_;
  next_ = 4096;
  const std::uint32_t element_bytes = nkv_element_bytes(shape.dtype);
  nkv_append_command command{};
  command.opcode = NKV_OPCODE_APPEND;
  command.flags = shape.key_scales ? NKV_APPEND_FLAG_KEY_SCALES : 0;
  command.head_dim = shape.head_dim;
  command.value_dim = shape.value_dim;
  command.tokens = pages * NKV_PAGE_TOKENS;
  command.first_token = NKV_PAGE_TOKENS * test::pick(random, 0, 1000);
  command.sequence_id = random();
  command.layer = static_cast<std::uint16_t>(random());
  command.kv_head = static_cast<std::uint16_t>(random());
  command.dtype = shape.dtype;
  command.k_form = shape.k_form;
  command.v_form = shape.v_form;
  command.key_stride =
      shape.head_dim * element_bytes + (shape.key_scales ? 4 : 0) + shape.gap_bytes;
  command.keys =
      allocate(std::uint64_t{command.key_stride} * command.tokens + 64, 64) + shape.skew_bytes;
  if (shape.v_form != NKV_ROW_FORM_NONE) {
    command.value_stride = shape.value_dim * element_bytes + shape.gap_bytes;
    command.values =
        allocate(std::uint64_t{command.value_stride} * command.tokens + 64, 64) + shape.skew_bytes;
  }
  for (std::uint64_t row = 0; row < command.tokens; ++row) {
    put_bytes(command.keys + row * command.key_stride, random_row(shape, shape.head_dim, random));
    if (shape.v_form == NKV_ROW_FORM_NONE) continue;
    put_bytes(command.values + row * command.value_stride,
              random_row(shape, shape.value_dim, random));
  }
  command.page_list = allocate(pages * sizeof(nkv_page_entry), 8);
  for (std::uint32_t page = 0; page < pages; ++page) {
    nkv_page_entry entry{};
    entry.page = static_cast<std::uint32_t>(allocate(shape.page_bytes(), NKV_PAGE_GRAIN_BYTES) /
                                            NKV_PAGE_GRAIN_BYTES);
    entry.generation = static_cast<std::uint16_t>(random());
    entry.k_exponent = static_cast<std::uint8_t>(random());
    put(command.page_list + page * sizeof(entry), entry);
  }
  return command;
}

void AppendUnit::start(const nkv_append_command& command) {
  run_cycles_ = bursts_read_ = bursts_written_ = 0;
  std::memcpy((*this)->command_i.data(), &command, sizeof(command));
  (*this)->window_base_i = kWindowBase;
  (*this)->window_bytes_i = kWindowBytes;
  (*this)->tenant_i = kTenant;
  (*this)->start_i = 1;
  cycle();
  (*this)->start_i = 0;
}

model::Outcome AppendUnit::run(const nkv_append_command& command) {
  models_outcome_ =
      model::append({.window = model::Window(models_window()), .tenant = kTenant}, command);
  start(command);
  while (!(*this)->done_o && run_cycles_ < kMostCycles) cycle();
  EXPECT_TRUE((*this)->done_o) << "no outcome";
  model::Outcome outcome;
  outcome.verdict = {static_cast<std::uint8_t>((*this)->status_o), (*this)->detail_o};
  outcome.count = (*this)->count_o;
  const std::uint64_t cycles = run_cycles_;
  while (!(*this)->writes_done_o && run_cycles_ < 2 * kMostCycles) cycle();
  run_cycles_ = cycles;
  return outcome;
}

void AppendUnit::begin(const nkv_append_command& command, unsigned cycles) {
  start(command);
  while (run_cycles_ < cycles && !(*this)->done_o) cycle();
}

void AppendUnit::clear() {
  (*this)->clear_i = 1;
  cycle();
  (*this)->clear_i = 0;
  settle_memory();
}

void AppendUnit::power_up() {
  Simulation::reset();
  settle_memory();
}

void AppendUnit::settle_memory() {
  constexpr unsigned kEnough = 400;
  for (unsigned i = 0; i < kEnough; ++i) cycle();
}

bool AppendUnit::show_beat() {
  emulator::AxiMemory::ReadBeat beat{};
  if (axi_.next_beat(&beat)) {
    std::ranges::find(under_way_, beat.id, &Access::number)->beat = beat;
  }
  // Of each read in order, of all of them as they come.
  std::set<std::uint16_t> waiting;
  for (auto access = under_way_.begin(); access != under_way_.end(); ++access) {
    if (access->beat && !waiting.contains(access->id)) {
      Vnkv_append_bench& port = **this;
      port.r_id_i = access->id;
      port.r_last_i = access->last;
      port.r_poison_i = access->beat->poison;
      std::ranges::copy(access->beat->data, port.r_data_i.data());
      under_way_.erase(access);
      ++bursts_read_;
      return true;
    }
    waiting.insert(access->id);
  }
  return false;
}

void AppendUnit::cycle() {
  Vnkv_append_bench& port = **this;
  port.r_valid_i = show_beat();
  emulator::AxiMemory::Answer answer{};
  port.b_valid_i = axi_.next_answer(&answer);
  if (port.b_valid_i != 0) port.b_id_i = answer.id;
  // The inline path cuts reads into accesses of a burst, one per cycle.
  if (!accesses_.empty() && axi_.takes_reads()) {
    axi_.read({.id = next_access_, .address = accesses_.front().address});
    under_way_.push_back(accesses_.front());
    under_way_.back().number = next_access_++;
    accesses_.pop_front();
  }
  port.ar_ready_i = accesses_.size() <= 1 && is_willing(random_, pace_.reads);
  port.w_ready_i = is_willing(random_, pace_.writes);
  port.clk_i = 0;
  settle();
  if (port.ar_valid_o != 0 && port.ar_ready_i != 0) {
    for (unsigned i = 0; i <= port.ar_len_o; ++i) {
      accesses_.push_back({.id = static_cast<std::uint16_t>(port.ar_id_o),
                           .address = port.ar_addr_o + i * NKV_BURST_BYTES,
                           .last = i == port.ar_len_o,
                           .number = 0,
                           .beat = {}});
    }
  }
  if (port.w_valid_o != 0 && port.w_ready_i != 0) {
    emulator::AxiMemory::Write write{.id = static_cast<std::uint16_t>(port.w_id_o),
                                     .address = port.w_addr_o,
                                     .strobes = port.w_strb_o,
                                     .data = {}};
    std::copy_n(port.w_data_o.data(), write.data.size(), write.data.begin());
    axi_.write(write);
    ++bursts_written_;
  }
  tick();
  axi_.advance();
  ++run_cycles_;
}

void expect_models(AppendUnit& unit, const model::Outcome& outcome) {
  const model::Outcome& expected = unit.models_outcome();
  EXPECT_EQ(int{outcome.verdict.status}, int{expected.verdict.status});
  EXPECT_EQ(outcome.verdict.detail, expected.verdict.detail);
  EXPECT_EQ(outcome.count, expected.count);
  const auto differing = std::ranges::mismatch(unit.window(), unit.models_window());
  EXPECT_EQ(differing.in1, unit.window().end())
      << "memory differs first at " << differing.in1 - unit.window().begin();
}

}  // namespace nearkv::rtl_test
