#include "inline_path.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <utility>

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kPlaces = 128;
constexpr unsigned kPortBit = 9;  // Of ids: the port, below what else a client's number holds.
// A client and an epoch, above the places.
constexpr std::uint16_t near_ids(unsigned port) {
  return static_cast<std::uint16_t>((4U + port) << kPortBit | 0b10U << 7U);
}
constexpr unsigned port_of(std::uint16_t id) { return (id >> kPortBit) % kPorts; }

template <typename Wide>
std::vector<std::uint64_t> words_of(const Wide& wide) {
  std::vector<std::uint64_t> words;
  for (unsigned i = 0; i < 16; ++i) words.push_back(wide[i]);
  return words;
}

template <typename Wide>
Line line_of(const Wide& wide, bool poison) {
  Line line;
  for (unsigned i = 0; i < 16; ++i) line.data.at(i) = wide[i];
  line.poison = poison;
  return line;
}

void merge(Line* into, const Line& line, std::uint64_t strobes) {
  for (unsigned i = 0; i < kBurstBytes; ++i) {
    if ((strobes >> i & 1) == 0) continue;
    const unsigned shift = i % 4 * 8;
    std::uint32_t& word = into->data.at(i / 4);
    word = (word & ~(0xffU << shift)) | (line.data.at(i / 4) & 0xffU << shift);
  }
  into->poison = line.poison;
}

}  // namespace

Line random_line(test::Random& random) {
  Line line;
  std::ranges::generate(line.data, [&random] { return static_cast<std::uint32_t>(random()); });
  line.poison = random() % 16 == 0;
  return line;
}

InlinePath::InlinePath(std::uint64_t seed) : random_(test::case_random(seed)) {
  rtl_->control_near_least_i = 16;
  rtl_->control_read_limit_i = kNoLimit;
  rtl_->control_write_limit_i = kNoLimit;
  rtl_->control_age_cycles_i = 64;
  rtl_->control_share_i = 4;
  rtl_->control_optimal_i = 32;
  rtl_->control_overload_i = 96;
  reset();
}

void InlinePath::reset() {
  for (auto& host : hosts_) host = {};
  for (auto& memory : memories_) {
    memory.reads.clear();
    memory.writes.clear();
    memory.early_data.clear();
  }
  for (auto& engine : engines_) engine = {};
  for (auto* pending :
       {&host_reads_pending_, &host_writes_pending_, &near_reads_pending_, &near_writes_pending_}) {
    pending->clear();
  }
  being_read_.clear();
  // Writes that were cut off have happened or not: the reference takes what memory has.
  for (const std::uint64_t address : being_written_) {
    reference(address) = memories_.at(slice_of(address)).lines[local_of(address)];
  }
  being_written_.clear();
  held_ = {};
  for (unsigned i = 0; i < kSlices; ++i) {
    rtl_->host_ar_valid_i[i] = rtl_->host_aw_valid_i[i] = rtl_->host_w_valid_i[i] = 0;
    rtl_->memory_r_valid_i[i] = rtl_->memory_b_valid_i[i] = 0;
  }
  for (unsigned i = 0; i < kPorts; ++i) rtl_->near_ar_valid_i[i] = rtl_->near_w_valid_i[i] = 0;
  rtl_.reset();
}

void InlinePath::clear_records() {
  for (auto& taken : reads_taken) taken.clear();
  for (auto& taken : writes_taken) taken.clear();
  for (auto& rung : doorbells) rung.clear();
  host_read_cycles.clear();
  host_write_cycles.clear();
  near_answers = near_settled = poisoned_answers = error_answers = 0;
  port_answers = {};
}

// ---- What is to be done ----

std::uint16_t InlinePath::free_id(const std::map<std::uint16_t, Expected>& used,
                                  std::optional<unsigned> port) {
  for (;;) {
    const auto id = static_cast<std::uint16_t>(random_() % 4096);
    if (!used.contains(id) && (!port || port_of(id) == *port)) return id;
  }
}

bool InlinePath::host_read(std::uint64_t address) {
  if (being_written_.contains(address)) return false;
  const std::uint16_t id = free_id(host_reads_pending_);
  ++being_read_[address];
  host_reads_pending_[id] = {address, reference(address), 0, slice_of(address)};
  hosts_.at(slice_of(address)).reads.queue.push_back({.id = id, .address = address, .line = {}});
  return true;
}

bool InlinePath::host_write(std::uint64_t address, const Line& line, std::uint64_t strobes) {
  if (being_written_.contains(address) || being_read_.contains(address)) return false;
  const std::uint16_t id = free_id(host_writes_pending_);
  being_written_.insert(address);
  merge(&reference(address), line, strobes);
  host_writes_pending_[id] = {address, line, 0, slice_of(address)};
  const Access access{.id = id, .address = address, .line = line, .strobes = strobes};
  hosts_.at(slice_of(address)).addresses.queue.push_back(access);
  hosts_.at(slice_of(address)).data.queue.push_back(access);
  return true;
}

bool InlinePath::near_read(std::uint64_t address, unsigned beats, unsigned port) {
  EnginePort& engine = engines_.at(port);
  const std::uint16_t ids = near_ids(port);
  const auto place = [&](unsigned beat) {
    return static_cast<std::uint16_t>(ids | (engine.next_place + beat) % kPlaces);
  };
  for (unsigned i = 0; i < beats; ++i) {
    if (near_reads_pending_.contains(place(i))) return false;
    if (being_written_.contains(address + i * kBurstBytes)) return false;
  }
  engine.reads.push_back({.id = place(0), .address = address, .beats = beats, .line = {}});
  for (unsigned i = 0; i < beats; ++i) {
    const std::uint64_t at = address + i * kBurstBytes;
    ++being_read_[at];
    near_reads_pending_[place(i)] = {at, reference(at), 0, 0};
  }
  engine.next_place = static_cast<std::uint16_t>((engine.next_place + beats) % kPlaces);
  return true;
}

bool InlinePath::near_write(std::uint64_t address, const Line& line, unsigned port) {
  if (being_written_.contains(address) || being_read_.contains(address)) return false;
  const std::uint16_t id = free_id(near_writes_pending_, port);
  being_written_.insert(address);
  merge(&reference(address), line, ~std::uint64_t{0});
  near_writes_pending_[id] = {address, line, 0, 0};
  engines_.at(port).writes.queue.push_back({.id = id, .address = address, .line = line});
  return true;
}

std::size_t InlinePath::host_reads_queued(unsigned slice) const {
  return hosts_.at(slice).reads.queue.size();
}

// ---- A cycle ----

void InlinePath::cycle() {
  for (unsigned i = 0; i < kSlices; ++i) {
    drive_host(i);
    drive_memory(i);
  }
  for (unsigned i = 0; i < kPorts; ++i) drive_near(i);
  rtl_.settle();
  for (unsigned i = 0; i < kSlices; ++i) {
    check_holds(i);
    sample_host(i);
    sample_memory(i);
  }
  for (unsigned i = 0; i < kPorts; ++i) sample_near(i);
  rtl_.tick();
  ++now_;
}

void InlinePath::cycles(unsigned count) {
  while (count-- > 0) cycle();
}

bool InlinePath::drain(unsigned limit) {
  const auto is_idle = [this] {
    return host_reads_pending_.empty() && host_writes_pending_.empty() &&
           near_reads_pending_.empty() && near_writes_pending_.empty();
  };
  while (limit-- > 0 && !is_idle()) cycle();
  cycles(3);  // Nothing may come on top.
  return is_idle();
}

bool InlinePath::Offers::offers(test::Random& random, unsigned pace) {
  if (!is_offered) is_offered = !queue.empty() && is_willing(random, pace);
  return is_offered;
}

InlinePath::Access InlinePath::Offers::take() {
  const Access access = queue.front();
  queue.pop_front();
  is_offered = false;
  return access;
}

void InlinePath::drive_host(unsigned slice) {
  HostPort& host = hosts_.at(slice);
  Vnkv_inline& rtl = *rtl_;
  rtl.host_ar_valid_i[slice] = host.reads.offers(random_, manner_.host_pace);
  if (host.reads.is_offered) {
    const Access& read = host.reads.queue.front();
    rtl.host_ar_id_i[slice] = read.id;
    rtl.host_ar_addr_i[slice] = read.address;
    Expected& expected = host_reads_pending_.at(read.id);
    if (expected.offered_at == 0) expected.offered_at = now_ + 1;
  }
  rtl.host_aw_valid_i[slice] = host.addresses.offers(random_, manner_.host_pace);
  if (host.addresses.is_offered) {
    const Access& write = host.addresses.queue.front();
    rtl.host_aw_id_i[slice] = write.id;
    rtl.host_aw_addr_i[slice] = write.address;
    Expected& expected = host_writes_pending_.at(write.id);
    if (expected.offered_at == 0) expected.offered_at = now_ + 1;
  }
  rtl.host_w_valid_i[slice] = host.data.offers(random_, manner_.host_pace);
  if (host.data.is_offered) {
    const Access& write = host.data.queue.front();
    rtl.host_w_strb_i[slice] = write.strobes;
    rtl.host_w_poison_i[slice] = write.line.poison;
    for (unsigned i = 0; i < 16; ++i) rtl.host_w_data_i[slice][i] = write.line.data.at(i);
  }
  rtl.host_r_ready_i[slice] = is_willing(random_, manner_.answer_pace);
  rtl.host_b_ready_i[slice] = is_willing(random_, manner_.answer_pace);
}

void InlinePath::drive_near(unsigned port) {
  EnginePort& engine = engines_.at(port);
  Vnkv_inline& rtl = *rtl_;
  if (!engine.read_is_offered) {
    engine.read_is_offered = !engine.reads.empty() && is_willing(random_, manner_.near_pace);
  }
  rtl.near_ar_valid_i[port] = engine.read_is_offered;
  if (engine.read_is_offered) {
    const Access& read = engine.reads.front();
    rtl.near_ar_id_i[port] = read.id;
    rtl.near_ar_addr_i[port] = read.address;
    rtl.near_ar_len_i[port] = static_cast<std::uint16_t>(read.beats - 1);
  }
  rtl.near_w_valid_i[port] = engine.writes.offers(random_, manner_.near_pace);
  if (engine.writes.is_offered) {
    const Access& write = engine.writes.queue.front();
    rtl.near_w_id_i[port] = write.id;
    rtl.near_w_addr_i[port] = write.address;
    rtl.near_w_strb_i[port] = write.strobes;
    rtl.near_w_poison_i[port] = write.line.poison;
    for (unsigned i = 0; i < 16; ++i) rtl.near_w_data_i[port][i] = write.line.data.at(i);
  }
}

bool InlinePath::serves() const {
  const bool rests = manner_.pause_every != 0 && now_ % manner_.pause_every < manner_.pause_cycles;
  return !rests && now_ % 8 < manner_.serve_pace;
}

void InlinePath::drive_memory(unsigned slice) {
  Memory& memory = memories_.at(slice);
  Vnkv_inline& rtl = *rtl_;
  rtl.memory_ar_ready_i[slice] = is_willing(random_, manner_.memory_pace);
  rtl.memory_aw_ready_i[slice] = is_willing(random_, manner_.memory_pace);
  rtl.memory_w_ready_i[slice] = is_willing(random_, manner_.memory_pace);

  const auto read = std::ranges::find_if(
      memory.reads, [this](const MemoryRead& access) { return access.ready_at <= now_; });
  const bool in_order = manner_.jitter == 0;
  const bool answers =
      serves() && read != memory.reads.end() && (!in_order || read == memory.reads.begin());
  rtl.memory_r_valid_i[slice] = answers;
  if (answers) {
    const bool error = read->address >= kMemoryEnd / kSlices;
    const Line line = error ? Line{} : memory.lines[read->address];
    rtl.memory_r_is_near_i[slice] = read->is_near;
    rtl.memory_r_answer_id_i[slice] = read->id;
    rtl.memory_r_answer_error_i[slice] = error;
    rtl.memory_r_answer_poison_i[slice] = line.poison;
    for (unsigned i = 0; i < 16; ++i) rtl.memory_r_answer_data_i[slice][i] = line.data.at(i);
    memory.reads.erase(read);
  }
  const auto write = std::ranges::find_if(memory.writes, [this](const MemoryWrite& access) {
    return access.data && access.ready_at <= now_;
  });
  rtl.memory_b_valid_i[slice] = write != memory.writes.end();
  if (write != memory.writes.end()) {
    const bool error = write->address >= kMemoryEnd / kSlices;
    rtl.memory_b_is_near_i[slice] = write->is_near;
    rtl.memory_b_answer_id_i[slice] = write->id;
    rtl.memory_b_answer_error_i[slice] = error;
    if (!error) merge(&memory.lines[write->address], write->data->line, write->data->strobes);
    memory.writes.erase(write);
  }
}

// ---- What came of it ----

void InlinePath::check_holds(unsigned slice) {
  Vnkv_inline& rtl = *rtl_;
  auto& held = held_.at(slice);
  expect_held(held[0], rtl.memory_ar_valid_o[slice], rtl.memory_ar_ready_i[slice],
              {rtl.memory_ar_is_near_o[slice], rtl.memory_ar_access_id_o[slice],
               rtl.memory_ar_access_addr_o[slice]});
  expect_held(held[1], rtl.memory_aw_valid_o[slice], rtl.memory_aw_ready_i[slice],
              {rtl.memory_aw_is_near_o[slice], rtl.memory_aw_access_id_o[slice],
               rtl.memory_aw_access_addr_o[slice]});
  std::vector<std::uint64_t> data = words_of(rtl.memory_w_data_o[slice]);
  data.push_back(rtl.memory_w_strb_o[slice]);
  data.push_back(rtl.memory_w_poison_o[slice]);
  expect_held(held[2], rtl.memory_w_valid_o[slice], rtl.memory_w_ready_i[slice], std::move(data));
  std::vector<std::uint64_t> answer = words_of(rtl.host_r_data_o[slice]);
  answer.push_back(rtl.host_r_id_o[slice]);
  expect_held(held[3], rtl.host_r_valid_o[slice], rtl.host_r_ready_i[slice], std::move(answer));
  expect_held(held[4], rtl.host_b_valid_o[slice], rtl.host_b_ready_i[slice],
              {rtl.host_b_id_o[slice], rtl.host_b_error_o[slice]});
  // Memory is never held up.
  EXPECT_TRUE(rtl.memory_r_ready_o[slice] && rtl.memory_b_ready_o[slice]);
}

void InlinePath::expect_held(Held& held, bool valid, bool ready,
                             std::vector<std::uint64_t> payload) {
  if (held.waits) {
    EXPECT_TRUE(valid);
    EXPECT_EQ(payload, held.payload);
  }
  held.waits = valid && !ready;
  held.payload = std::move(payload);
}

void InlinePath::check_read(std::map<std::uint16_t, Expected>& expected, std::uint16_t id,
                            const Line& line, bool error) {
  const auto found = expected.find(id);
  ASSERT_NE(found, expected.end()) << "an answer to no read, id " << id;
  const std::uint64_t address = found->second.address;
  EXPECT_EQ(error, address >= kMemoryEnd);
  if (!error) {
    EXPECT_EQ(line, found->second.line) << "address " << address;
  }
  poisoned_answers += line.poison ? 1 : 0;
  error_answers += error ? 1 : 0;
  if (--being_read_.at(address) == 0) being_read_.erase(address);
  expected.erase(found);
}

void InlinePath::check_write(std::map<std::uint16_t, Expected>& expected, std::uint16_t id,
                             bool error) {
  const auto found = expected.find(id);
  ASSERT_NE(found, expected.end()) << "an answer to no write, id " << id;
  EXPECT_EQ(error, found->second.address >= kMemoryEnd);
  error_answers += error ? 1 : 0;
  being_written_.erase(found->second.address);
  expected.erase(found);
}

void InlinePath::sample_host(unsigned slice) {
  HostPort& host = hosts_.at(slice);
  Vnkv_inline& rtl = *rtl_;
  if (host.reads.is_offered && rtl.host_ar_ready_o[slice]) host.reads.take();
  if (host.addresses.is_offered && rtl.host_aw_ready_o[slice]) host.addresses.take();
  if (host.data.is_offered && rtl.host_w_ready_o[slice]) host.data.take();
  if (rtl.host_r_valid_o[slice] && rtl.host_r_ready_i[slice]) {
    const std::uint16_t id = rtl.host_r_id_o[slice];
    if (const auto read = host_reads_pending_.find(id); read != host_reads_pending_.end()) {
      EXPECT_EQ(read->second.slice, slice);
      host_read_cycles.push_back(static_cast<unsigned>(now_ + 1 - read->second.offered_at));
    }
    check_read(host_reads_pending_, id,
               line_of(rtl.host_r_data_o[slice], rtl.host_r_poison_o[slice]),
               rtl.host_r_error_o[slice]);
  }
  if (rtl.host_b_valid_o[slice] && rtl.host_b_ready_i[slice]) {
    const std::uint16_t id = rtl.host_b_id_o[slice];
    if (const auto write = host_writes_pending_.find(id); write != host_writes_pending_.end()) {
      EXPECT_EQ(write->second.slice, slice);
      host_write_cycles.push_back(static_cast<unsigned>(now_ + 1 - write->second.offered_at));
    }
    check_write(host_writes_pending_, id, rtl.host_b_error_o[slice]);
  }
  Doorbell doorbell{.index = rtl.doorbell_index_o[slice], .tail = {}, .head = {}};
  if (rtl.doorbell_brings_tail_o[slice]) doorbell.tail = rtl.doorbell_tail_o[slice];
  if (rtl.doorbell_brings_head_o[slice]) doorbell.head = rtl.doorbell_head_o[slice];
  if (doorbell.tail || doorbell.head) doorbells.at(slice).push_back(doorbell);
}

void InlinePath::sample_near(unsigned port) {
  EnginePort& engine = engines_.at(port);
  Vnkv_inline& rtl = *rtl_;
  if (engine.read_is_offered && rtl.near_ar_ready_o[port]) {
    engine.reads.pop_front();
    engine.read_is_offered = false;
  }
  if (engine.writes.is_offered && rtl.near_w_ready_o[port]) engine.writes.take();
  if (rtl.near_r_valid_o[port]) {
    ++near_answers;
    ++port_answers.at(port);
    EXPECT_TRUE(rtl.near_r_last_o[port]);
    EXPECT_EQ(port_of(rtl.near_r_id_o[port]), port);
    check_read(near_reads_pending_, rtl.near_r_id_o[port],
               line_of(rtl.near_r_data_o[port], rtl.near_r_poison_o[port]),
               rtl.near_r_error_o[port]);
  }
  if (rtl.near_b_valid_o[port]) {
    ++near_settled;
    EXPECT_EQ(port_of(rtl.near_b_id_o[port]), port);
    check_write(near_writes_pending_, rtl.near_b_id_o[port], rtl.near_b_error_o[port]);
  }
}

std::uint64_t InlinePath::answer_time() {
  return now_ + manner_.latency + (manner_.jitter == 0 ? 0 : random_() % (manner_.jitter + 1));
}

void InlinePath::take_data(Memory& memory, const Access& data) {
  for (MemoryWrite& write : memory.writes) {
    if (write.data) continue;
    write.data = data;
    write.ready_at = answer_time();
    return;
  }
  memory.early_data.push_back(data);
}

void InlinePath::sample_memory(unsigned slice) {
  Memory& memory = memories_.at(slice);
  Vnkv_inline& rtl = *rtl_;
  if (rtl.memory_ar_valid_o[slice] && rtl.memory_ar_ready_i[slice]) {
    const bool is_near = rtl.memory_ar_is_near_o[slice];
    const std::uint16_t id = rtl.memory_ar_access_id_o[slice];
    memory.reads.push_back({is_near, id, rtl.memory_ar_access_addr_o[slice], answer_time()});
    reads_taken.at(slice).push_back({now_, is_near, port_of(id)});
  }
  if (rtl.memory_aw_valid_o[slice] && rtl.memory_aw_ready_i[slice]) {
    const bool is_near = rtl.memory_aw_is_near_o[slice];
    const std::uint16_t id = rtl.memory_aw_access_id_o[slice];
    memory.writes.push_back({is_near, id, rtl.memory_aw_access_addr_o[slice], std::nullopt, 0});
    writes_taken.at(slice).push_back({now_, is_near, port_of(id)});
    if (!memory.early_data.empty()) {
      take_data(memory, memory.early_data.front());
      memory.early_data.pop_front();
    }
  }
  if (rtl.memory_w_valid_o[slice] && rtl.memory_w_ready_i[slice]) {
    take_data(memory, {.line = line_of(rtl.memory_w_data_o[slice], rtl.memory_w_poison_o[slice]),
                       .strobes = rtl.memory_w_strb_o[slice]});
  }
}

}  // namespace nearkv::rtl_test
