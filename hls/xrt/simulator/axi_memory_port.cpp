#include "xrt/simulator/axi_memory_port.hpp"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>

namespace nearkv::hw_emu {

namespace {

constexpr std::size_t kQueuedBursts = 64;
constexpr std::uint64_t kBoundaryBytes = 4096;
constexpr std::uint64_t kOkay = 0;
constexpr std::uint64_t kSlaveError = 2;

std::string hex(std::uint64_t value) {
  std::array<char, 24> text{};
  std::snprintf(text.data(), text.size(), "0x%llx", static_cast<unsigned long long>(value));
  return text.data();
}

}  // namespace

std::uint64_t AxiMemoryPort::Burst::address_of(unsigned beat) const {
  if (kind == kFixed || beat == 0) return address;
  const std::uint64_t aligned = address / beat_bytes * beat_bytes;
  const std::uint64_t straight = aligned + std::uint64_t{beat} * beat_bytes;
  if (kind == kIncrementing) return straight;
  const std::uint64_t span = std::uint64_t{beats} * beat_bytes;
  const std::uint64_t begin = address / span * span;
  return begin + (straight - begin) % span;
}

AxiMemoryPort::AxiMemoryPort(const Ports& ports, const std::string& prefix, DeviceMemory* memory,
                             unsigned latency_cycles, Tell tell)
    : prefix_(prefix), memory_(memory), latency_cycles_(latency_cycles), tell_(std::move(tell)) {
  const auto pin = [&](const char* name) { return ports.find(prefix + "_" + name); };
  ar_ = {pin("arvalid"), pin("arready"), pin("arid"),   pin("araddr"),
         pin("arlen"),   pin("arsize"),  pin("arburst")};
  aw_ = {pin("awvalid"), pin("awready"), pin("awid"),   pin("awaddr"),
         pin("awlen"),   pin("awsize"),  pin("awburst")};
  rvalid_ = pin("rvalid");
  rready_ = pin("rready");
  rid_ = pin("rid");
  rdata_ = pin("rdata");
  rresp_ = pin("rresp");
  rlast_ = pin("rlast");
  wvalid_ = pin("wvalid");
  wready_ = pin("wready");
  wdata_ = pin("wdata");
  wstrb_ = pin("wstrb");
  wlast_ = pin("wlast");
  bvalid_ = pin("bvalid");
  bready_ = pin("bready");
  bid_ = pin("bid");
  bresp_ = pin("bresp");
  data_bytes_ = (rdata_.exists() ? rdata_ : wdata_).bits() / 8;
}

AxiMemoryPort::Burst AxiMemoryPort::take(const Address& channel, const char* what) {
  // What a master leaves out has the value that AXI4 gives it.
  const unsigned size =
      channel.size.exists() ? 1U << channel.size.get() : static_cast<unsigned>(data_bytes_);
  const auto kind = channel.burst.exists() ? static_cast<Kind>(channel.burst.get()) : kIncrementing;
  Burst burst{.id = channel.id.get(),
              .address = channel.address.get(),
              .beats = static_cast<unsigned>(channel.length.get()) + 1,
              .beat_bytes = size,
              .kind = kind,
              .failed = false,
              .ready_at = now_ + latency_cycles_};
  const auto refuse = [&](const std::string& why) {
    burst.failed = true;
    tell_(prefix_ + ": a " + what + " at " + hex(burst.address) + " " + why);
  };
  const std::uint64_t bytes = std::uint64_t{burst.beats} * size;
  if (size > data_bytes_) {
    refuse("has beats of " + std::to_string(size) + " bytes on a port of " +
           std::to_string(data_bytes_));
    burst.beat_bytes = static_cast<unsigned>(data_bytes_);
  } else if (kind == kIncrementing &&
             burst.address / kBoundaryBytes !=
                 (burst.address / size * size + bytes - 1) / kBoundaryBytes) {
    refuse("of " + std::to_string(bytes) + " bytes crosses a boundary of 4 KiB");
  } else if (std::byte first{}; !memory_->read(burst.address, {&first, 1})) {
    refuse("is in no bank of memory");
  }
  return burst;
}

void AxiMemoryPort::fill_beat() {
  Burst& burst = reads_.front();
  const std::uint64_t address = burst.address_of(burst.next);
  const std::size_t lane = address % data_bytes_;
  const std::size_t bytes = burst.beat_bytes - address % burst.beat_bytes;
  const std::span<std::byte> data = rdata_.bytes();
  std::ranges::fill(data, std::byte{});
  const bool failed = burst.failed || !memory_->read(address, data.subspan(lane, bytes));
  if (failed && !burst.failed) {
    burst.failed = true;
    tell_(prefix_ + ": a read at " + hex(address) + " is in no bank of memory");
  }
  beat_failed_ = failed;
  beat_is_filled_ = true;
}

void AxiMemoryPort::drive() {
  ++now_;
  ar_.ready.set(reads_.size() < kQueuedBursts);
  aw_.ready.set(writes_.size() < kQueuedBursts);
  wready_.set(!writes_.empty());
  const bool has_beat = !reads_.empty() && reads_.front().ready_at <= now_;
  if (has_beat && !beat_is_filled_) fill_beat();
  rvalid_.set(has_beat);
  if (has_beat) {
    rid_.set(reads_.front().id);
    rresp_.set(beat_failed_ ? kSlaveError : kOkay);
    rlast_.set(reads_.front().next + 1 == reads_.front().beats);
  }
  const bool has_answer = !answers_.empty() && answers_.front().ready_at <= now_;
  bvalid_.set(has_answer);
  if (has_answer) {
    bid_.set(answers_.front().id);
    bresp_.set(answers_.front().failed ? kSlaveError : kOkay);
  }
}

void AxiMemoryPort::take_data() {
  Burst& burst = writes_.front();
  const std::uint64_t address = burst.address_of(burst.next) / data_bytes_ * data_bytes_;
  const std::span<std::byte> strobes = wstrb_.bytes();
  const std::span<const std::uint8_t> bits(reinterpret_cast<const std::uint8_t*>(strobes.data()),
                                           strobes.size());
  if (!burst.failed && !memory_->write(address, wdata_.bytes(), bits)) {
    burst.failed = true;
    tell_(prefix_ + ": a write at " + hex(address) + " is in no bank of memory");
  }
  const bool is_last = ++burst.next == burst.beats;
  if (wlast_.exists() && (wlast_.get() != 0) != is_last) {
    burst.failed = true;
    tell_(prefix_ + ": WLAST is not at the end of the write at " + hex(burst.address));
  }
  if (!is_last) return;
  answers_.push_back({burst.id, burst.failed, now_ + latency_cycles_});
  writes_.pop_front();
}

bool AxiMemoryPort::sample() {
  bool transferred = false;
  if (rvalid_.get() != 0 && rready_.get() != 0) {
    transferred = true;
    beat_is_filled_ = false;
    if (++reads_.front().next == reads_.front().beats) reads_.pop_front();
  }
  if (bvalid_.get() != 0 && bready_.get() != 0) {
    transferred = true;
    answers_.pop_front();
  }
  if (wvalid_.get() != 0 && wready_.get() != 0) {
    transferred = true;
    take_data();
  }
  if (ar_.valid.get() != 0 && ar_.ready.get() != 0) {
    transferred = true;
    reads_.push_back(take(ar_, "read"));
  }
  if (aw_.valid.get() != 0 && aw_.ready.get() != 0) {
    transferred = true;
    writes_.push_back(take(aw_, "write"));
  }
  return transferred;
}

}  // namespace nearkv::hw_emu
