// The golden model and the device under test, driven alike and compared to the byte.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "nkv_abi.h"
#include "support/bench_device.hpp"
#include "support/devices.hpp"

namespace nearkv::test {

/// Every device of device_uris() but the model itself.
std::vector<std::string> subject_uris();

/// What must be equal in two completions: all but tag, phase and time.
std::string describe(const nkv_completion& completion);

/// Two devices with the same memory contents at the same addresses.
class DevicePair {
 public:
  /// `memory` as in a URI; replaces the one in `subject`.
  explicit DevicePair(const std::string& subject, const std::string& memory = "64MiB");

  [[nodiscard]] BenchDevice& subject() { return subject_; }
  [[nodiscard]] BenchDevice& model() { return model_; }

  std::uint64_t allocate(std::uint64_t bytes);
  template <typename T>
  std::uint64_t store(std::span<const T> values) {
    subject_.store(values);
    return model_.store(values);
  }
  /// Overwrites bytes that were allocated.
  void write(std::uint64_t address, std::span<const std::byte> bytes);
  /// Forgets all allocations and wipes them.
  void clear();

  struct Completions {
    nkv_completion subject{};
    nkv_completion model{};
  };
  template <typename Command>
  Completions run(const Command& command) {
    return {subject_.run(command), model_.run(command)};
  }

  /// Runs on both and expects the same completion and the same bytes in all of the allocated
  /// memory.
  template <typename Command>
  nkv_completion expect_same(const Command& command) {
    const Completions done = run(command);
    EXPECT_EQ(describe(done.subject), describe(done.model));
    expect_same_memory();
    return done.model;
  }

  void expect_same_memory();

 private:
  BenchDevice subject_;
  BenchDevice model_;
};

/// A suite over all devices but the model.
class ParityTest : public testing::TestWithParam<std::string> {};

}  // namespace nearkv::test
