// The golden model and the device under test, driven alike and compared to the byte.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cstddef>
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
  /// Runs on both. A subject may not offer a command, its mode, or its size: it says so as the
  /// contract wants it, the model runs alone, and the subject gets its memory and its completion.
  template <typename Command>
  Completions run(const Command& command) {
    static_assert(sizeof(Command) == NKV_COMMAND_BYTES);
    const Completions done{subject_.run(command), model_.run(command)};
    ++commands_;
    if (is_offered(std::as_bytes(std::span<const Command, 1>(&command, 1)), done)) return done;
    ++not_offered_;
    std::ranges::copy(model_.window(), subject_.window().begin());
    return {done.model, done.model};
  }

  /// Commands that were run so far, and those of them that the subject does not offer.
  [[nodiscard]] std::uint64_t commands() const { return commands_; }
  [[nodiscard]] std::uint64_t not_offered() const { return not_offered_; }

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
  [[nodiscard]] bool is_offered(std::span<const std::byte> command, const Completions& done);

  BenchDevice subject_;
  BenchDevice model_;
  std::uint64_t limits_;  ///< LIMITS of the subject.
  std::uint64_t commands_ = 0;
  std::uint64_t not_offered_ = 0;
};

/// A suite over all devices but the model.
class ParityTest : public testing::TestWithParam<std::string> {};

}  // namespace nearkv::test
