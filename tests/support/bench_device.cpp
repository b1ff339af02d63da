#include "support/bench_device.hpp"

#include <algorithm>
#include <cmath>
#include <cstring>
#include <stdexcept>

#include "support/devices.hpp"

namespace nearkv::test {
namespace {

constexpr std::uint64_t kWindowBase = 1 << 20;
constexpr std::uint64_t kSection = NKV_BURST_BYTES;

std::uint64_t section(std::uint64_t bytes) { return (bytes + kSection - 1) / kSection * kSection; }

std::uint64_t result_bytes(const nkv_attend_command& command) {
  return section(std::uint64_t{command.group} * command.value_dim * sizeof(float)) +
         2 * section(command.group * sizeof(float));
}

}  // namespace

BenchDevice::BenchDevice(const std::string& uri) : device_(open_or_throw(uri)) {
  open_queues();
  window_ = device_->memory().subspan(kWindowBase);
}

void BenchDevice::open_queues() {
  Queue::Options options;
  options.window_base = kWindowBase;
  options.window_bytes = device_->memory().size() - kWindowBase;
  check(Queue::open(device_.get(), options, &queue_));
  options.index = 1;
  options.rings_at = Queue::ring_bytes(options.ring_entries);
  options.tenant = 1;
  check(Queue::open(device_.get(), options, &stranger_));
}

void BenchDevice::reset_after(std::uint64_t ticks) {
  const std::uint64_t begin = device_->read_csr(NKV_REG_TICK_COUNT);
  while (device_->read_csr(NKV_REG_TICK_COUNT) < begin + ticks) {
  }
  device_->write_csr(NKV_REG_CONTROL, NKV_REG_CONTROL_RESET_MASK);
  await_ready();
  queue_.reset();
  stranger_.reset();
  open_queues();
}

void BenchDevice::await_ready() {
  while ((device_->read_csr(NKV_REG_DEVICE_STATUS) & NKV_REG_DEVICE_STATUS_READY_MASK) == 0) {
  }
}

namespace {

// A simulated device takes minutes for a list of a million tokens.
constexpr std::chrono::seconds kPatience{1200};

}  // namespace

void BenchDevice::check(Status status) {
  if (status != Status::kOk) throw std::runtime_error(std::string(message(status)));
}

std::uint64_t BenchDevice::allocate(std::uint64_t bytes) {
  const std::uint64_t address = next_;
  next_ += (bytes + NKV_PAGE_GRAIN_BYTES - 1) / NKV_PAGE_GRAIN_BYTES * NKV_PAGE_GRAIN_BYTES;
  if (next_ > window_.size()) throw std::runtime_error("the test needs a larger device");
  std::ranges::fill(window_.subspan(address, bytes), std::byte{0});
  return address;
}

nkv_completion BenchDevice::finish(Queue& queue, std::uint16_t tag) {
  queue.ring();
  check(queue.wait(kPatience));
  nkv_completion completion{};
  if (queue.poll(std::span(&completion, 1)) != 1 || completion.tag != tag) {
    throw std::runtime_error("the device posted no completion of this command");
  }
  return completion;
}

nkv_append_command append_command(BenchDevice* bench, const KvData& data, std::uint8_t k_form,
                                  std::uint8_t v_form, std::uint16_t generation, StoredList* list) {
  nkv_page_shape shape{};
  shape.k_form = k_form;
  shape.v_form = v_form;
  shape.head_dim = static_cast<std::uint16_t>(data.head_dim);
  shape.value_dim = static_cast<std::uint16_t>(data.value_dim);
  struct nkv_page_layout layout{};
  nkv_lay_out_page(&shape, &layout);

  const std::size_t pages = (data.tokens + NKV_PAGE_TOKENS - 1) / NKV_PAGE_TOKENS;
  std::vector<std::uint16_t> keys(pages * NKV_PAGE_TOKENS * data.head_dim);
  std::ranges::copy(data.keys, keys.begin());
  std::vector<std::uint16_t> values(pages * NKV_PAGE_TOKENS * data.value_dim);
  if (v_form != NKV_ROW_FORM_NONE) std::ranges::copy(data.values, values.begin());
  std::vector<nkv_page_entry> entries(pages);
  for (nkv_page_entry& entry : entries) {
    entry.page =
        static_cast<std::uint32_t>(bench->allocate(layout.total_bytes) / NKV_PAGE_GRAIN_BYTES);
    entry.generation = generation;
  }

  nkv_append_command command{};
  command.opcode = NKV_OPCODE_APPEND;
  command.head_dim = shape.head_dim;
  command.value_dim = shape.value_dim;
  command.tokens = static_cast<std::uint32_t>(pages * NKV_PAGE_TOKENS);
  command.page_list = bench->store(std::span<const nkv_page_entry>(entries));
  command.keys = bench->store(std::span<const std::uint16_t>(keys));
  command.values =
      v_form == NKV_ROW_FORM_NONE ? 0 : bench->store(std::span<const std::uint16_t>(values));
  command.key_stride = static_cast<std::uint32_t>(2 * data.head_dim);
  command.value_stride = static_cast<std::uint32_t>(2 * data.value_dim);
  command.k_form = k_form;
  command.v_form = v_form;
  if (list != nullptr) {
    list->page_list = command.page_list;
    list->tokens = data.tokens;
    list->head_dim = data.head_dim;
    list->value_dim = data.value_dim;
    list->page_bytes = layout.total_bytes;
  }
  return command;
}

StoredList append(BenchDevice* bench, const KvData& data, std::uint8_t k_form, std::uint8_t v_form,
                  std::uint16_t generation) {
  StoredList list;
  const nkv_append_command command = append_command(bench, data, k_form, v_form, generation, &list);
  list.completion = bench->run(command);
  return list;
}

nkv_attend_command attend_command(BenchDevice* bench, const StoredList& list,
                                  std::span<const std::uint16_t> queries) {
  nkv_attend_command command{};
  command.opcode = NKV_OPCODE_ATTEND;
  command.head_dim = static_cast<std::uint16_t>(list.head_dim);
  command.value_dim = static_cast<std::uint16_t>(list.value_dim);
  command.tokens = static_cast<std::uint32_t>(list.tokens);
  command.query = bench->store(queries);
  command.page_list = list.page_list;
  command.scale = 1.0F / std::sqrt(static_cast<float>(list.head_dim));
  command.group = static_cast<std::uint8_t>(queries.size() / list.head_dim);
  command.result = bench->allocate(result_bytes(command));
  return command;
}

AttendOutcome attend(BenchDevice* bench, const nkv_attend_command& command) {
  return attend_outcome(bench, command, bench->run(command));
}

AttendOutcome attend_outcome(BenchDevice* bench, const nkv_attend_command& command,
                             const nkv_completion& completion) {
  AttendOutcome outcome;
  outcome.completion = completion;
  if (outcome.completion.status != NKV_STATUS_OK) return outcome;
  const std::size_t rows = command.group;
  const std::size_t elements = rows * command.value_dim;
  const std::uint64_t lse_at = command.result + section(elements * sizeof(float));
  const std::uint64_t bound_at = lse_at + section(rows * sizeof(float));
  outcome.output.assign(bench->at<float>(command.result),
                        bench->at<float>(command.result) + elements);
  outcome.lse.assign(bench->at<float>(lse_at), bench->at<float>(lse_at) + rows);
  outcome.bound.assign(bench->at<float>(bound_at), bench->at<float>(bound_at) + rows);
  return outcome;
}

nkv_topk_command topk_command(BenchDevice* bench, const StoredList& list,
                              std::span<const std::uint16_t> queries, std::uint16_t top_k,
                              std::uint8_t mode) {
  nkv_topk_command command{};
  command.opcode = NKV_OPCODE_TOPK;
  command.head_dim = static_cast<std::uint16_t>(list.head_dim);
  command.tokens = static_cast<std::uint32_t>(list.tokens);
  command.query = bench->store(queries);
  command.page_list = list.page_list;
  command.scale = 1.0F / std::sqrt(static_cast<float>(list.head_dim));
  command.top_k = top_k;
  command.mode = mode;
  command.group = static_cast<std::uint8_t>(queries.size() / list.head_dim);
  command.result =
      bench->allocate(2 * section(std::uint64_t{command.group} * top_k * sizeof(float)) +
                      section(command.group * sizeof(float)));
  return command;
}

TopKOutcome top_k(BenchDevice* bench, const nkv_topk_command& command) {
  TopKOutcome outcome;
  outcome.completion = bench->run(command);
  if (outcome.completion.status != NKV_STATUS_OK) return outcome;
  const std::size_t rows = command.mode == NKV_SELECT_INDEXER ? 1 : command.group;
  const std::uint64_t table_bytes = section(rows * command.top_k * sizeof(float));
  const auto* const ids = bench->at<std::uint32_t>(command.result);
  const auto* const scores = bench->at<float>(command.result + table_bytes);
  const auto* const counts = bench->at<std::uint32_t>(command.result + 2 * table_bytes);
  for (std::size_t row = 0; row < rows; ++row) {
    const std::size_t at = row * command.top_k;
    outcome.ids.emplace_back(ids + at, ids + at + counts[row]);
    outcome.scores.emplace_back(scores + at, scores + at + counts[row]);
  }
  return outcome;
}

}  // namespace nearkv::test
