#include "verilated/host_traffic.hpp"

#include <algorithm>
#include <new>

namespace nearkv::emulator {

namespace {

constexpr std::uint64_t kBurstBytes = sizeof(Burst);

std::uint64_t first_line(std::span<std::byte> memory) { return memory.size() - kHostBytes; }

}  // namespace

HostTraffic::HostTraffic(std::span<std::byte> memory, HostLoad load, unsigned ids)
    : memory_(memory),
      load_(load),
      record_(new(memory.data() + memory.size() - kHostRecordBytes) HostRecord{}),
      random_(load.seed),
      reads_(ids),
      writes_(ids) {
  std::ranges::fill(memory.last(kHostBytes).first(kLines * kBurstBytes), std::byte{0});
}

const HostTraffic::Access* HostTraffic::next_read() const {
  return waiting_reads_.empty() ? nullptr : &waiting_reads_.front();
}

const HostTraffic::Access* HostTraffic::next_write() const {
  return waiting_writes_.empty() ? nullptr : &waiting_writes_.front();
}

void HostTraffic::read_taken() { waiting_reads_.pop_front(); }

void HostTraffic::write_taken() { waiting_writes_.pop_front(); }

void HostTraffic::read_answered(std::uint16_t id, const Burst& data, bool failed) {
  const Read read = reads_.at(id).value();
  reads_.at(id).reset();
  if (failed) ++record_->wrong;
  if (read.line != kNoLine) {
    Line& line = lines_.at(read.line);
    --line.reads;
    if (line.data != data) ++record_->wrong;
  }
  ++record_->reads;
  const std::uint64_t cycles = now_ - read.wanted_at;
  ++record_->cycles.at(std::min<std::uint64_t>(cycles, record_->cycles.size() - 1));
}

void HostTraffic::write_answered(std::uint16_t id, bool failed) {
  if (failed) ++record_->wrong;
  lines_.at(writes_.at(id).value()).is_written = false;
  writes_.at(id).reset();
}

void HostTraffic::advance() {
  ++now_;
  if (happens(load_.read_percent, 100) && waiting_reads_.size() < kMostWaiting) want_read();
  if (happens(load_.read_percent, 400) && waiting_writes_.size() < kMostWaiting) want_write();
}

void HostTraffic::want_read() {
  if (reads_.at(next_read_id_)) return;
  Read read{.wanted_at = now_};
  std::uint64_t address = random_() % (first_line(memory_) / kBurstBytes) * kBurstBytes;
  const std::size_t number = random_() % (2 * kLines);
  if (number < kLines && !lines_.at(number).is_written) {
    read.line = number;
    ++lines_.at(number).reads;
    address = first_line(memory_) + number * kBurstBytes;
  }
  const std::uint16_t id = next_read_id_;
  next_read_id_ = static_cast<std::uint16_t>((id + 1U) % reads_.size());
  reads_.at(id) = read;
  waiting_reads_.push_back({.id = id, .address = address, .data = {}});
}

void HostTraffic::want_write() {
  const std::size_t number = random_() % kLines;
  Line& line = lines_.at(number);
  if (line.reads != 0 || line.is_written || writes_.at(next_write_id_)) return;
  line.is_written = true;
  std::ranges::generate(line.data, [this] { return static_cast<std::uint32_t>(random_()); });
  const std::uint16_t id = next_write_id_;
  next_write_id_ = static_cast<std::uint16_t>((id + 1U) % writes_.size());
  writes_.at(id) = number;
  waiting_writes_.push_back(
      {.id = id, .address = first_line(memory_) + number * kBurstBytes, .data = line.data});
}

}  // namespace nearkv::emulator
