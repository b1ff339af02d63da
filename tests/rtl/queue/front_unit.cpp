#include "front_unit.hpp"

#include <gtest/gtest.h>

#include <algorithm>

namespace nearkv::rtl_test {

namespace {

constexpr std::uint64_t kRingBytes = FrontUnit::kEntries * NKV_COMMAND_BYTES;
constexpr std::size_t kFlagsAt = offsetof(nkv_append_command, flags);
constexpr std::size_t kWorkAt = 8;  // In a command, behind opcode and tag.

}  // namespace

FrontUnit::FrontUnit(emulator::MemoryTiming timing)
    : rtl_(&*simulation_), bytes_(kMemoryBytes), memory_(bytes_, timing) {
  rtl_->memory_bytes_i = kMemoryBytes;
  rtl_->r_last_i = 1;
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
  if (rtl_->b_valid_i) {
    rtl_->b_id_i = answer.id;
    rtl_->b_error_i = answer.error;
  }
  rtl_->ar_ready_i = 1;
  rtl_->quiet_i = engines_are_quiet_ ? (1U << kEngines) - 1 : 0;
  rtl_->w_ready_i = takes_writes_;
  rtl_->fatal_i = 0;
  for (unsigned i = 0; i < kEngines; ++i) drive_engine(i);
  simulation_.settle();
  if (rtl_->ar_valid_o) {
    fetched.push_back(now_);
    memory_.read({.id = rtl_->ar_id_o, .address = rtl_->ar_addr_o});
  }
  if (rtl_->w_valid_o && takes_writes_) {
    emulator::AxiMemory::Write write{
        .id = rtl_->w_id_o, .address = rtl_->w_addr_o, .strobes = rtl_->w_strb_o, .data = {}};
    std::copy_n(rtl_->w_data_o.data(), write.data.size(), write.data.begin());
    Written row{.at = now_, .queue = rtl_->w_id_o % kQueues, .completion = {}};
    std::memcpy(&row.completion, write.data.data(), sizeof(row.completion));
    written.push_back(row);
    memory_.write(write);
  }
  for (unsigned i = 0; i < kEngines; ++i) sample_engine(i);
  simulation_.tick();
  memory_.advance();
  ++now_;
}

void FrontUnit::cycles(std::uint64_t count) {
  while (count-- > 0) cycle();
}

// An engine: a command's reads, then its writes, then nothing until its time is over; if it trails,
// its results beside what the next command does.
void FrontUnit::drive_engine(unsigned engine) {
  Vnkv_front& rtl = *rtl_;
  const auto& [running, trailing, has_stopped] = engines_.at(engine);
  rtl.fatal_i |= static_cast<unsigned>(has_stopped) << engine;
  rtl.command_ready_i[engine] = !running && !has_stopped;
  rtl.outcome_valid_i[engine] = 0;
  rtl.events_ar_valid_i[engine] = rtl.events_ar_ready_i[engine] = rtl.events_r_valid_i[engine] = 0;
  rtl.events_w_valid_i[engine] = rtl.events_w_ready_i[engine] = rtl.events_b_valid_i[engine] = 0;
  rtl.events_ar_len_i[engine] = 0;
  rtl.events_w_trails_i[engine] = rtl.events_b_trails_i[engine] = 0;
  if (trailing) {
    rtl.results_i[engine] = static_cast<std::uint8_t>(trailing->work.results);
    rtl.events_w_trails_i[engine] = 1;
    rtl.events_w_valid_i[engine] = trailing->writes < trailing->work.results;
    rtl.events_w_ready_i[engine] = 1;
    rtl.events_b_valid_i[engine] = rtl.events_b_trails_i[engine] = trailing->write_pending;
    if (trailing->cycle >= trailing->work.trails) drive_outcome(engine, trailing->work);
  }
  if (!running) return;
  const Work& work = running->work;
  rtl.events_r_valid_i[engine] = running->read_pending && running->late == 0;
  if (!trailing) rtl.events_b_valid_i[engine] = running->write_pending && running->late == 0;
  const bool refuses = running->refused < work.refused;
  EXPECT_TRUE(!trailing || work.writes == 0) << "one write a cycle";
  if (running->reads < work.reads) {
    rtl.events_ar_valid_i[engine] = 1;
    rtl.events_ar_ready_i[engine] = !refuses;
  } else if (running->writes < work.writes) {
    rtl.events_w_valid_i[engine] = 1;
    rtl.events_w_ready_i[engine] = !refuses;
  }
  if (!trailing && work.trails == 0 && running->cycle >= work.cycles) drive_outcome(engine, work);
}

void FrontUnit::drive_outcome(unsigned engine, const Work& work) {
  Vnkv_front& rtl = *rtl_;
  rtl.outcome_valid_i[engine] = 1;
  rtl.outcome_verdict_status_i[engine] = work.status;
  rtl.outcome_verdict_detail_i[engine] = work.tag + 1000U;
  rtl.outcome_stream_bursts_i[engine] = work.reads;
  rtl.outcome_refine_bursts_i[engine] = 1;
  rtl.outcome_exact_bursts_i[engine] = 2;
  rtl.outcome_value_bursts_i[engine] = 3;
}

void FrontUnit::sample_engine(unsigned engine) {
  const Vnkv_front& rtl = *rtl_;
  std::optional<Running>& slot = engines_.at(engine).running;
  std::optional<Running>& trailing = engines_.at(engine).trailing;
  const bool ends = rtl.outcome_valid_i[engine] && rtl.outcome_ready_o[engine];
  if (ends) ended.push_back(now_);
  if (trailing) {
    ++trailing->cycle;
    trailing->write_pending = rtl.events_w_valid_i[engine];
    trailing->writes += rtl.events_w_valid_i[engine];
  }
  if (ends) (trailing ? trailing : slot).reset();
  sample_running(engine);
  const bool takes = rtl.command_valid_o[engine] && rtl.command_ready_i[engine];
  if (slot && slot->work.trails != 0 && slot->cycle >= slot->work.cycles && !trailing) {
    trailing.emplace();
    trailing->work = slot->work;
    trailing->queue = slot->queue;
    slot.reset();
  }
  if (takes) {
    std::array<std::byte, NKV_COMMAND_BYTES> command;
    std::memcpy(command.data(), &rtl.command_command_o[engine][0], command.size());
    Running running;
    std::memcpy(&running.work, command.data() + kWorkAt, sizeof(running.work));
    EXPECT_EQ(command[0], std::byte{running.work.opcode});
    EXPECT_EQ(command[kFlagsAt], std::byte{}) << "the slot's phase";
    const unsigned queue = queue_of_tenant(engine);
    for (const Engine& other : engines_) {
      EXPECT_FALSE(other.running && other.running->queue == queue) << "queue " << queue;
      EXPECT_FALSE(other.trailing && other.trailing->queue == queue) << "queue " << queue;
    }
    running.queue = queue;
    started.push_back({.at = now_, .queue = queue, .work = running.work, .engine = engine});
    slot = running;
  }
}

void FrontUnit::sample_running(unsigned engine) {
  const Vnkv_front& rtl = *rtl_;
  if (!engines_.at(engine).running) return;
  Running& running = *engines_.at(engine).running;
  ++running.cycle;
  if (running.late == 0) running.read_pending = running.write_pending = false;
  if (running.late > 0) --running.late;
  const bool writes = rtl.events_w_valid_i[engine] && !rtl.events_w_trails_i[engine];
  if (!rtl.events_ar_valid_i[engine] && !writes) return;
  if (running.refused < running.work.refused) {
    ++running.refused;
    return;
  }
  running.read_pending = rtl.events_ar_valid_i[engine];
  running.write_pending = writes;
  ++(running.read_pending ? running.reads : running.writes);
  const bool is_last = running.reads == running.work.reads && running.writes == running.work.writes;
  running.late = is_last ? running.work.late : 0;
}

void FrontUnit::stop_engine(unsigned engine) {
  Engine& stopping = engines_.at(engine);
  stopping.has_stopped = true;
  if (!stopping.running) return;
  stopping.running->work.status = NKV_STATUS_INTERNAL;
  stopping.running->work.cycles = stopping.running->cycle;
}

bool FrontUnit::engines_are_busy() const {
  return std::ranges::any_of(engines_,
                             [](const Engine& engine) { return engine.running.has_value(); });
}

// Each queue has a tenant and a window of its own.
unsigned FrontUnit::queue_of_tenant(unsigned engine) const {
  const unsigned queue = rtl_->command_domain_tenant_o[engine] - 100U;
  EXPECT_EQ(rtl_->command_domain_window_base_o[engine], (queue + 1U) * 4096U);
  return queue;
}

std::uint64_t FrontUnit::read(std::uint32_t offset) {
  rtl_->access_valid_i = 1;
  rtl_->access_write_i = 0;
  rtl_->access_address_i = offset;
  cycle();
  rtl_->access_valid_i = 0;
  return rtl_->rdata_o;
}

void FrontUnit::write(std::uint32_t offset, std::uint64_t value) {
  rtl_->access_valid_i = 1;
  rtl_->access_write_i = 1;
  rtl_->access_address_i = offset;
  rtl_->access_data_i = value;
  cycle();
  rtl_->access_valid_i = 0;
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
  write_slot(queue, host.tail, work);
  host.submitted.push_back(work);
  ++host.tail;
}

void FrontUnit::write_slot(unsigned queue, unsigned index, const Work& work) {
  std::array<std::byte, NKV_COMMAND_BYTES> command{};
  command[0] = std::byte{work.opcode};
  if (index / kEntries % 2 == 0) command[kFlagsAt] = std::byte{NKV_SLOT_FLAG_PHASE};
  std::memcpy(command.data() + offsetof(nkv_append_command, tag), &work.tag, sizeof(work.tag));
  std::memcpy(command.data() + kWorkAt, &work, sizeof(work));
  const std::uint64_t at = hosts_.at(queue).sq_base + index % kEntries * NKV_COMMAND_BYTES;
  std::ranges::copy(command, bytes_.begin() + static_cast<std::ptrdiff_t>(at));
}

void FrontUnit::skip(unsigned queue) {
  Host& host = hosts_.at(queue);
  host.submitted.emplace_back();
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
