#include "management/management.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

namespace nearkv::emulator {
namespace {

using namespace std::chrono_literals;

constexpr std::uint64_t kSliceCycles = 2'000;
constexpr auto kNap = 20ms;

}  // namespace

Management::Management(std::span<const std::byte> rom, std::uint64_t serial,
                       std::span<std::byte> memory, std::uint64_t dynamic_bytes,
                       std::unique_ptr<Flash> flash)
    : memory_(memory),
      flash_(std::move(flash)),
      processor_(rom,
                 {.memory_bytes = memory.size(), .serial = serial, .dynamic_bytes = dynamic_bytes},
                 [this](Operation* operation) { return carry(operation); }),
      thread_([this](const std::stop_token& stop) { run(stop); }) {}

Management::~Management() {
  thread_.request_stop();
  wakes_.notify_all();
}

void Management::run(const std::stop_token& stop) {
  while (!stop.stop_requested()) {
    std::unique_lock lock(mutex_);
    processor_.run(kSliceCycles);
    if (processor_.has_failed() || !processor_.is_busy()) {
      wakes_.wait_for(lock, stop, kNap, [this] { return processor_.is_busy(); });
    }
    lock.unlock();
    while (waiting_ > 0) std::this_thread::yield();
  }
}

std::uint64_t Management::read(std::uint32_t offset) {
  ++waiting_;
  const std::scoped_lock lock(mutex_);
  --waiting_;
  return processor_.read(offset);
}

void Management::write(std::uint32_t offset, std::uint64_t value) {
  {
    ++waiting_;
    const std::scoped_lock lock(mutex_);
    --waiting_;
    processor_.write(offset, value);
  }
  wakes_.notify_one();
}

bool Management::is_inside(std::uint64_t at, std::uint64_t bytes) const {
  return at <= memory_.size() && bytes <= memory_.size() - at;
}

bool Management::carry(Operation* operation) {
  switch (operation->kind) {
    case NKV_FIRMWARE_OPERATION_POISON:
      operation->has_failed = !is_inside(operation->at, NKV_BURST_BYTES);
      if (!operation->has_failed) poisoned_.insert(operation->at);
      return true;
    case NKV_FIRMWARE_OPERATION_WRITE:
      operation->has_failed = !is_inside(operation->at, NKV_BURST_BYTES);
      if (operation->has_failed) return true;
      std::ranges::copy(operation->line, memory_.subspan(operation->at).begin());
      poisoned_.erase(operation->at);
      return true;
    case NKV_FIRMWARE_OPERATION_CHECK:
      check(operation);
      return true;
    case NKV_FIRMWARE_OPERATION_WIPE:
      operation->has_failed = !is_inside(operation->at, operation->bytes);
      if (!operation->has_failed) wipe(*operation);
      return true;
    case NKV_FIRMWARE_OPERATION_READ_REGISTER:
    case NKV_FIRMWARE_OPERATION_WRITE_REGISTER:
      return carry_register(operation);
    default:
      if (!carry_flash(flash_.get(), operation)) operation->has_failed = true;
      return true;
  }
}

void Management::check(Operation* operation) const {
  operation->has_failed = !is_inside(operation->at, operation->bytes);
  if (operation->has_failed) return;
  const auto first = poisoned_.lower_bound(operation->at);
  const std::uint64_t end = operation->at + operation->bytes;
  operation->at = first == poisoned_.end() ? end : std::min(end, *first);
}

void Management::wipe(const Operation& operation) {
  std::ranges::fill(memory_.subspan(operation.at, operation.bytes), std::byte{0});
  poisoned_.erase(poisoned_.lower_bound(operation.at),
                  poisoned_.lower_bound(operation.at + operation.bytes));
}

bool Management::carry_register(Operation* operation) {
  const std::scoped_lock lock(register_mutex_);
  // The firmware gives up what takes long.
  if (register_done_ && register_done_->number != operation->number) register_done_.reset();
  if (!register_done_) {
    register_wanted_ = *operation;
    return false;
  }
  *operation = *register_done_;
  register_wanted_.reset();
  register_done_.reset();
  return true;
}

bool Management::serve(Function* function) {
  const std::scoped_lock lock(register_mutex_);
  if (!register_wanted_ || register_done_) return false;
  Operation done = *register_wanted_;
  done.has_failed = done.at >= NKV_REG_MAP_BYTES || done.at % 8 != 0;
  if (!done.has_failed) {
    const auto offset = static_cast<std::uint32_t>(done.at);
    std::uint64_t value = 0;
    if (done.kind == NKV_FIRMWARE_OPERATION_READ_REGISTER) {
      value = function->read(offset);
      std::memcpy(done.line.data(), &value, sizeof(value));
    } else {
      std::memcpy(&value, done.line.data(), sizeof(value));
      function->write(offset, value);
    }
  }
  register_done_ = done;
  return true;
}

}  // namespace nearkv::emulator
