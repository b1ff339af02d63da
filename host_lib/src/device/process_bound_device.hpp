// A device that works for the process that opened it, and for no other.
#pragma once

#include <memory>
#include <utility>
#include <vector>

#include "forks.hpp"
#include "nearkv/device.hpp"

namespace nearkv {

/// In a process that fork() made it is gone: nothing of the parent's is touched, and destroying it
/// leaves all as it is. Otherwise it is the device that it holds.
class ProcessBoundDevice final : public Device {
 public:
  explicit ProcessBoundDevice(std::unique_ptr<Device> device) : device_(std::move(device)) {}
  ~ProcessBoundDevice() override {
    if (is_here()) return;
    [[maybe_unused]] Device* const parents = device_.release();
  }

  std::uint64_t read_csr(std::uint32_t offset) override {
    return is_here() ? device_->read_csr(offset) : ~std::uint64_t{0};
  }
  void write_csr(std::uint32_t offset, std::uint64_t value) override {
    if (is_here()) device_->write_csr(offset, value);
  }
  std::span<std::byte> memory() override { return device_->memory(); }
  [[nodiscard]] Durability durability() const override { return device_->durability(); }
  [[nodiscard]] std::chrono::nanoseconds oldest_check() const override {
    return device_->oldest_check();
  }
  [[nodiscard]] std::vector<int> cores() const override { return device_->cores(); }
  Status wait(std::uint64_t* epoch, std::chrono::nanoseconds timeout) override {
    return is_here() ? device_->wait(epoch, timeout) : Status::kForked;
  }
  [[nodiscard]] bool is_gone() const override { return !is_here() || device_->is_gone(); }

 private:
  [[nodiscard]] bool is_here() const { return fork_count() == forks_; }

  std::unique_ptr<Device> device_;
  std::uint64_t forks_ = fork_count();
};

}  // namespace nearkv
