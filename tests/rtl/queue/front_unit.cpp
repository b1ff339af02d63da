#include "front_unit.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace nearkv::rtl_test {

namespace {

constexpr std::uint64_t kRingBytes = FrontUnit::kEntries * NKV_COMMAND_BYTES;
constexpr std::size_t kWorkAt = 8;  // In a command, behind opcode and tag.

}  // namespace

FrontUnit::FrontUnit(emulator::MemoryTiming timing)
    : rtl_(&*simulation_), bytes_(kMemoryBytes), memory_(bytes_, timing) {
  rtl_->memory_bytes_i = kMemoryBytes;
  simulation_.reset();
}

void FrontUnit::cycle() {
  emulator::AxiMemory::ReadBeat beat{};
  rtl_->r_valid_i = memory_.next_beat(&beat);
  if (rtl_->r_valid_i) {
    rtl_->r_id_i = beat.id;
    rtl_->r_poison_i = beat.poison;
    std::ranges::copy(beat.data, rtl_->r_data_i.data());
  }
  emulator::AxiMemory::Answer answer{};
  rtl_->b_valid_i = memory_.next_answer(&answer);
  if (rtl_->b_valid_i) rtl_->b_id_i = answer.id;
  rtl_->ar_ready_i = 1;
  rtl_->w_ready_i = 1;
  drive_engine();
  simulation_.settle();
  if (rtl_->ar_valid_o) {
    fetched.push_back(now_);
    memory_.read({.id = rtl_->ar_id_o, .address = rtl_->ar_addr_o});
  }
  if (rtl_->w_valid_o) {
    emulator::AxiMemory::Write write{
        .id = rtl_->w_id_o, .address = rtl_->w_addr_o, .strobes = ~std::uint64_t{0}, .data = {}};
    std::copy_n(rtl_->w_data_o.data(), write.data.size(), write.data.begin());
    Written row{.at = now_, .queue = rtl_->w_id_o % kQueues, .completion = {}};
    std::memcpy(&row.completion, write.data.data(), sizeof(row.completion));
    written.push_back(row);
    memory_.write(write);
  }
  sample_engine();
  simulation_.tick();
  memory_.advance();
  ++now_;
}

void FrontUnit::cycles(std::uint64_t count) {
  while (count-- > 0) cycle();
}

// The engine: a command's reads, then its writes, then nothing until its time is over; if it
// trails, its results beside what the next command does.
void FrontUnit::drive_engine() {
  rtl_->command_ready_i = !engine_;
  rtl_->outcome_valid_i = 0;
  rtl_->event_ar_valid_i = rtl_->event_ar_ready_i = rtl_->event_r_valid_i = 0;
  rtl_->event_w_valid_i = rtl_->event_w_ready_i = rtl_->event_b_valid_i = 0;
  rtl_->event_ar_len_i = 0;
  rtl_->event_w_trails_i = rtl_->event_b_trails_i = 0;
  if (trailing_) {
    rtl_->results_i = static_cast<std::uint8_t>(trailing_->work.results);
    rtl_->event_w_trails_i = 1;
    rtl_->event_w_valid_i = trailing_->writes < trailing_->work.results;
    rtl_->event_w_ready_i = 1;
    rtl_->event_b_valid_i = rtl_->event_b_trails_i = trailing_->write_pending;
    if (trailing_->cycle >= trailing_->work.trails) drive_outcome(trailing_->work);
  }
  if (!engine_) return;
  const Work& work = engine_->work;
  rtl_->event_r_valid_i = engine_->read_pending && engine_->late == 0;
  if (!trailing_) rtl_->event_b_valid_i = engine_->write_pending && engine_->late == 0;
  const bool refuses = engine_->refused < work.refused;
  EXPECT_TRUE(!trailing_ || work.writes == 0) << "one write a cycle";
  if (engine_->reads < work.reads) {
    rtl_->event_ar_valid_i = 1;
    rtl_->event_ar_ready_i = !refuses;
  } else if (engine_->writes < work.writes) {
    rtl_->event_w_valid_i = 1;
    rtl_->event_w_ready_i = !refuses;
  }
  if (!trailing_ && work.trails == 0 && engine_->cycle >= work.cycles) drive_outcome(work);
}

void FrontUnit::drive_outcome(const Work& work) {
  rtl_->outcome_valid_i = 1;
  rtl_->outcome_status_i = work.status;
  rtl_->outcome_detail_i = work.tag + 1000U;
  rtl_->outcome_stream_i = work.reads;
  rtl_->outcome_refine_i = 1;
  rtl_->outcome_exact_i = 2;
  rtl_->outcome_value_i = 3;
}

void FrontUnit::sample_engine() {
  const bool ends = rtl_->outcome_valid_i && rtl_->outcome_ready_o;
  if (ends) ended.push_back(now_);
  if (trailing_) {
    ++trailing_->cycle;
    trailing_->write_pending = rtl_->event_w_valid_i;
    trailing_->writes += rtl_->event_w_valid_i;
  }
  if (ends) (trailing_ ? trailing_ : engine_).reset();
  sample_running();
  const bool takes = rtl_->command_valid_o && rtl_->command_ready_i;
  if (engine_ && engine_->work.trails != 0 && engine_->cycle >= engine_->work.cycles &&
      !trailing_) {
    trailing_.emplace();
    trailing_->work = engine_->work;
    engine_.reset();
  }
  if (takes) {
    std::array<std::byte, NKV_COMMAND_BYTES> command;
    std::memcpy(command.data(), rtl_->command_o.data(), command.size());
    Running running;
    std::memcpy(&running.work, command.data() + kWorkAt, sizeof(running.work));
    EXPECT_EQ(command[0], std::byte{running.work.opcode});
    started.push_back({.at = now_, .queue = queue_of_tenant(), .work = running.work});
    engine_ = running;
  }
}

void FrontUnit::sample_running() {
  if (!engine_) return;
  Running& running = *engine_;
  ++running.cycle;
  if (running.late == 0) running.read_pending = running.write_pending = false;
  if (running.late > 0) --running.late;
  const bool writes = rtl_->event_w_valid_i && !rtl_->event_w_trails_i;
  if (!rtl_->event_ar_valid_i && !writes) return;
  if (running.refused < running.work.refused) {
    ++running.refused;
    return;
  }
  running.read_pending = rtl_->event_ar_valid_i;
  running.write_pending = writes;
  ++(running.read_pending ? running.reads : running.writes);
  const bool is_last = running.reads == running.work.reads && running.writes == running.work.writes;
  running.late = is_last ? running.work.late : 0;
}

// Each queue has a tenant and a window of its own.
unsigned FrontUnit::queue_of_tenant() const {
  const unsigned queue = rtl_->command_tenant_o - 100U;
  EXPECT_EQ(rtl_->command_window_base_o, (queue + 1U) * 4096U);
  return queue;
}

std::uint64_t FrontUnit::read(std::uint32_t offset) {
  rtl_->csr_req_i = 1;
  rtl_->csr_we_i = 0;
  rtl_->csr_addr_i = offset;
  cycle();
  rtl_->csr_req_i = 0;
  return rtl_->csr_rdata_o;
}

void FrontUnit::write(std::uint32_t offset, std::uint64_t value) {
  rtl_->csr_req_i = 1;
  rtl_->csr_we_i = 1;
  rtl_->csr_addr_i = offset;
  rtl_->csr_wdata_i = value;
  cycle();
  rtl_->csr_req_i = 0;
}

void FrontUnit::enable(unsigned queue, unsigned place) {
  Host& host = hosts_.at(queue);
  host = {};
  host.sq_base = kMemoryBytes / 2 + (place * kQueues + queue) * 2 * kRingBytes;
  host.cq_base = host.sq_base + kRingBytes;
  std::fill_n(bytes_.begin() + static_cast<std::ptrdiff_t>(host.sq_base), 2 * kRingBytes,
              std::byte{0});
  write(NKV_REG_SQ_BASE(queue), host.sq_base);
  write(NKV_REG_CQ_BASE(queue), host.cq_base);
  write(NKV_REG_RING_ENTRIES(queue), kEntries);
  write(NKV_REG_WINDOW_BASE(queue), (queue + 1U) * 4096U);
  write(NKV_REG_WINDOW_BYTES(queue), 4096);
  write(NKV_REG_TENANT(queue), 100U + queue);
  write(NKV_REG_SQ_TAIL(queue), 0);
  write(NKV_REG_CQ_HEAD(queue), 0);
  write(NKV_REG_QUEUE_CONTROL(queue), NKV_REG_QUEUE_CONTROL_ENABLE_MASK);
}

void FrontUnit::submit(unsigned queue, const Work& work) {
  Host& host = hosts_.at(queue);
  ASSERT_LT(open(queue), kEntries);
  std::array<std::byte, NKV_COMMAND_BYTES> command{};
  command[0] = std::byte{work.opcode};
  std::memcpy(command.data() + offsetof(nkv_append_command, tag), &work.tag, sizeof(work.tag));
  std::memcpy(command.data() + kWorkAt, &work, sizeof(work));
  std::ranges::copy(
      command, bytes_.begin() + static_cast<std::ptrdiff_t>(host.sq_base + host.tail % kEntries *
                                                                               NKV_COMMAND_BYTES));
  host.submitted.push_back(work);
  ++host.tail;
}

void FrontUnit::ring(unsigned queue) { write(NKV_REG_SQ_TAIL(queue), hosts_.at(queue).tail); }

unsigned FrontUnit::open(unsigned queue) const {
  const Host& host = hosts_.at(queue);
  return static_cast<std::uint16_t>(host.tail - host.taken);
}

std::optional<nkv_completion> FrontUnit::take(unsigned queue) {
  Host& host = hosts_.at(queue);
  nkv_completion completion{};
  std::memcpy(&completion,
              bytes_.data() + host.cq_base + host.taken % kEntries * sizeof(completion),
              sizeof(completion));
  const unsigned phase = (host.taken / kEntries) % 2 == 0 ? 1 : 0;
  if (completion.phase != phase) return std::nullopt;
  const Work& work = host.submitted.at(host.taken);
  EXPECT_EQ(completion.tag, work.tag) << "queue " << queue << ", completion " << host.taken;
  ++host.taken;
  EXPECT_EQ(completion.sq_head, host.taken);
  return completion;
}

}  // namespace nearkv::rtl_test
