// Runs nkv_top once: rows are appended as pages, queries attend to them, and the answer is held
// against softmax in double precision, computed here from the same rows.
//
//   nkv_top_sim [SEED]
//
// Exit status: 0 the answer is right; 1 it is not, or the engine did not answer.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "Vnkv_top.h"
#include "nkv_abi.h"
#include "support/device_memory.hpp"
#include "verilated/card.hpp"
#include "verilated/top_machine.hpp"

namespace {

using nearkv::emulator::DeviceMemory;
using nearkv::emulator::TopMachine;
using nearkv::emulator::VerilatedCard;

constexpr std::size_t kMemoryBytes = std::size_t{4} << 20;
constexpr std::uint64_t kWindowBase = std::uint64_t{1} << 20;  // Of the queue; its rings lie at 0.
constexpr std::uint16_t kRingEntries = NKV_MIN_RING_ENTRIES;
constexpr std::uint64_t kCompletionsAt = std::uint64_t{kRingEntries} * NKV_COMMAND_BYTES;

constexpr std::uint32_t kPages = 3;
constexpr std::uint32_t kTokens = kPages * NKV_PAGE_TOKENS;
constexpr std::uint32_t kVisibleTokens = kTokens - 50;
constexpr std::uint16_t kHeadDim = 128;
constexpr std::uint16_t kValueDim = 64;
constexpr std::uint8_t kQueries = 8;
constexpr double kScale = 0.25;

// Relative to a row's largest number. ARITHMETIC.md promises 2^-8 for any rows; these are easy.
constexpr double kTolerance = 1e-4;

using Bf16 = std::uint16_t;

double value_of(Bf16 number) {
  const std::uint32_t pattern = std::uint32_t{number} << 16;
  float value = 0;
  std::memcpy(&value, &pattern, sizeof(value));
  return value;
}

std::vector<Bf16> random_rows(std::size_t elements, std::mt19937_64& random) {
  std::normal_distribution<float> normal;
  std::vector<Bf16> rows(elements);
  for (Bf16& element : rows) {
    const float value = normal(random);
    std::uint32_t pattern = 0;
    std::memcpy(&pattern, &value, sizeof(pattern));
    element = static_cast<Bf16>(pattern >> 16);
  }
  return rows;
}

/// A card with one queue, and room in the window that its commands see.
class Bench {
 public:
  explicit Bench(std::unique_ptr<DeviceMemory> memory)
      : memory_(memory->bytes()),
        card_(std::move(memory), std::make_unique<TopMachine<Vnkv_top>>(memory_.size()), {}) {
    card_.write_csr(NKV_REG_SQ_BASE(0), 0);
    card_.write_csr(NKV_REG_CQ_BASE(0), kCompletionsAt);
    card_.write_csr(NKV_REG_RING_ENTRIES(0), kRingEntries);
    card_.write_csr(NKV_REG_WINDOW_BASE(0), kWindowBase);
    card_.write_csr(NKV_REG_WINDOW_BYTES(0), kMemoryBytes - kWindowBase);
    card_.write_csr(NKV_REG_QUEUE_CONTROL(0), NKV_REG_QUEUE_CONTROL_ENABLE_MASK);
  }

  std::uint64_t read_csr(std::uint32_t offset) { return card_.read_csr(offset); }

  /// An address in the window, at a multiple of a page's grain.
  std::uint64_t allocate(std::uint64_t bytes) {
    const std::uint64_t address = next_;
    next_ += (bytes + NKV_PAGE_GRAIN_BYTES - 1) / NKV_PAGE_GRAIN_BYTES * NKV_PAGE_GRAIN_BYTES;
    return address;
  }
  template <typename T>
  std::uint64_t store(const std::vector<T>& values) {
    const std::uint64_t address = allocate(values.size() * sizeof(T));
    std::memcpy(window(address), values.data(), values.size() * sizeof(T));
    return address;
  }
  template <typename T>
  std::vector<T> load(std::uint64_t address, std::size_t count) {
    std::vector<T> values(count);
    std::memcpy(values.data(), window(address), count * sizeof(T));
    return values;
  }

  /// The completion of a command; none if there is not one in time. Of a queue's first round only.
  template <typename Command>
  std::optional<nkv_completion> run(Command command) {
    command.flags |= NKV_SLOT_FLAG_PHASE;
    command.tag = count_;
    std::memcpy(memory_.data() + count_ * sizeof(command), &command, sizeof(command));
    nkv_completion completion{};
    const std::byte* const place = memory_.data() + kCompletionsAt + count_ * sizeof(completion);
    card_.write_csr(NKV_REG_SQ_TAIL(0), ++count_);
    const bool has_come = card_.wait(std::chrono::minutes(2));
    std::memcpy(&completion, place, sizeof(completion));
    if (!has_come || completion.phase != 1 || completion.tag != command.tag) return std::nullopt;
    card_.write_csr(NKV_REG_CQ_HEAD(0), count_);
    return completion;
  }

 private:
  std::byte* window(std::uint64_t address) { return memory_.data() + kWindowBase + address; }

  std::span<std::byte> memory_;
  VerilatedCard card_;
  std::uint64_t next_ = 0;
  std::uint16_t count_ = 0;
};

bool is_ok(const char* name, const std::optional<nkv_completion>& completion) {
  if (!completion) {
    std::printf("%s: no completion\n", name);
    return false;
  }
  std::printf("%s: %s, %u cycles, %u bursts read\n", name, nkv_status_name(completion->status),
              static_cast<unsigned>(completion->ticks), completion->stream_bursts);
  return completion->status == NKV_STATUS_OK;
}

struct Rows {
  std::vector<Bf16> keys;     ///< [kTokens][kHeadDim]
  std::vector<Bf16> values;   ///< [kTokens][kValueDim]
  std::vector<Bf16> queries;  ///< [kQueries][kHeadDim]
};

/// The address of the list of pages; none if the engine refuses.
std::optional<std::uint64_t> append(Bench& bench, const Rows& rows) {
  nkv_page_shape shape{};
  shape.k_form = shape.v_form = NKV_ROW_FORM_DELTA4;
  shape.dtype = NKV_DTYPE_BF16;
  shape.head_dim = kHeadDim;
  shape.value_dim = kValueDim;
  struct nkv_page_layout layout{};
  nkv_lay_out_page(&shape, &layout);
  std::vector<nkv_page_entry> entries(kPages);
  for (nkv_page_entry& entry : entries) {
    entry.page =
        static_cast<std::uint32_t>(bench.allocate(layout.total_bytes) / NKV_PAGE_GRAIN_BYTES);
    entry.generation = 1;
  }
  nkv_append_command command{};
  command.opcode = NKV_OPCODE_APPEND;
  command.head_dim = kHeadDim;
  command.value_dim = kValueDim;
  command.tokens = kTokens;
  command.keys = bench.store(rows.keys);
  command.values = bench.store(rows.values);
  command.page_list = bench.store(entries);
  command.key_stride = kHeadDim * sizeof(Bf16);
  command.value_stride = kValueDim * sizeof(Bf16);
  command.dtype = shape.dtype;
  command.k_form = shape.k_form;
  command.v_form = shape.v_form;
  if (!is_ok("APPEND", bench.run(command))) return std::nullopt;
  return command.page_list;
}

struct Answer {
  std::vector<double> output;  ///< [kQueries][kValueDim]
  std::vector<double> lse;     ///< [kQueries]
};

std::optional<Answer> attend(Bench& bench, const Rows& rows, std::uint64_t page_list) {
  constexpr std::uint64_t kOutputBytes = std::uint64_t{kQueries} * kValueDim * sizeof(float);
  static_assert(kOutputBytes % NKV_BURST_BYTES == 0);
  nkv_attend_command command{};
  command.opcode = NKV_OPCODE_ATTEND;
  command.head_dim = kHeadDim;
  command.value_dim = kValueDim;
  command.tokens = kVisibleTokens;
  command.query = bench.store(rows.queries);
  command.page_list = page_list;
  command.result = bench.allocate(kOutputBytes + 2 * NKV_BURST_BYTES);
  command.scale = static_cast<float>(kScale);
  command.mode = NKV_ATTEND_MODE_DENSE;
  command.group = kQueries;
  command.query_dtype = NKV_DTYPE_BF16;
  if (!is_ok("ATTEND", bench.run(command))) return std::nullopt;
  const auto output = bench.load<float>(command.result, std::size_t{kQueries} * kValueDim);
  const auto lse = bench.load<float>(command.result + kOutputBytes, kQueries);
  return Answer{{output.begin(), output.end()}, {lse.begin(), lse.end()}};
}

Answer softmax(const Rows& rows) {
  Answer answer;
  for (std::size_t query = 0; query < kQueries; ++query) {
    std::vector<double> weights(kVisibleTokens);
    for (std::size_t token = 0; token < kVisibleTokens; ++token) {
      for (std::size_t i = 0; i < kHeadDim; ++i) {
        weights[token] += kScale * value_of(rows.queries[query * kHeadDim + i]) *
                          value_of(rows.keys[token * kHeadDim + i]);
      }
    }
    const double largest = *std::ranges::max_element(weights);
    double sum = 0;
    for (double& weight : weights) sum += weight = std::exp(weight - largest);
    answer.lse.push_back(largest + std::log(sum));
    for (std::size_t i = 0; i < kValueDim; ++i) {
      double output = 0;
      for (std::size_t token = 0; token < kVisibleTokens; ++token) {
        output += weights[token] / sum * value_of(rows.values[token * kValueDim + i]);
      }
      answer.output.push_back(output);
    }
  }
  return answer;
}

/// The largest difference, relative to the largest number of its row; NaN is the largest.
double difference(const std::vector<double>& found, const std::vector<double>& wanted) {
  const std::size_t width = wanted.size() / kQueries;
  double worst = 0;
  for (std::size_t row = 0; row < kQueries; ++row) {
    double apart = 0;
    double largest = 0;
    for (std::size_t i = row * width; i < (row + 1) * width; ++i) {
      const double distance = std::abs(found[i] - wanted[i]);
      apart = std::isnan(distance) ? HUGE_VAL : std::max(apart, distance);
      largest = std::max(largest, std::abs(wanted[i]));
    }
    worst = std::max(worst, apart / largest);
  }
  return worst;
}

int simulate(std::uint64_t seed) {
  auto memory = DeviceMemory::allocate(kMemoryBytes);
  if (memory == nullptr) {
    std::puts("no memory");
    return 1;
  }
  Bench bench(std::move(memory));
  const std::uint64_t abi = bench.read_csr(NKV_REG_ABI);
  std::printf("nkv_top: ABI %u.%u, seed %llu: %u rows, %u queries\n",
              static_cast<unsigned>(abi & 0xffff), static_cast<unsigned>(abi >> 16 & 0xffff),
              static_cast<unsigned long long>(seed), kTokens, kQueries);
  std::mt19937_64 random(seed);
  Rows rows;
  rows.keys = random_rows(std::size_t{kTokens} * kHeadDim, random);
  rows.values = random_rows(std::size_t{kTokens} * kValueDim, random);
  rows.queries = random_rows(std::size_t{kQueries} * kHeadDim, random);
  const std::optional<std::uint64_t> page_list = append(bench, rows);
  if (!page_list) return 1;
  const std::optional<Answer> found = attend(bench, rows, *page_list);
  if (!found) return 1;
  const Answer wanted = softmax(rows);
  const double output = difference(found->output, wanted.output);
  const double lse = difference(found->lse, wanted.lse);
  std::printf("outputs differ from softmax by %.2g, LSE by %.2g; %.2g is allowed\n", output, lse,
              kTolerance);
  std::printf("%u cycles in all\n", static_cast<unsigned>(bench.read_csr(NKV_REG_TICK_COUNT)));
  const bool is_right = output <= kTolerance && lse <= kTolerance;
  std::puts(is_right ? "PASS" : "FAIL");
  return is_right ? 0 : 1;
}

}  // namespace

int main(int count, char** arguments) {
  return simulate(count > 1 ? std::strtoull(arguments[1], nullptr, 0) : 1);
}
