// nearkv_card_latency: how long a NOP takes from its doorbell to its completion, through a card's
// driver. As JSON on standard output.
#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <cstdlib>
#include <exception>
#include <iostream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "nearkv/device.hpp"
#include "nearkv/queue.hpp"

namespace {

using nearkv::Device;
using nearkv::Queue;
using nearkv::Status;
using Clock = std::chrono::steady_clock;

constexpr unsigned kCommands = 2000;

nkv_pages_command nop() {
  nkv_pages_command command{};
  command.opcode = NKV_OPCODE_NOP;
  return command;
}

/// Microseconds of each command, one at a time; empty if one failed.
std::vector<double> measure(Queue& queue, bool polls) {
  std::vector<double> times;
  for (unsigned i = 0; i < kCommands; ++i) {
    const auto start = Clock::now();
    std::uint16_t tag = 0;
    if (queue.submit(nop(), &tag) != Status::kOk) return {};
    queue.ring();
    std::array<nkv_completion, 1> completion{};
    while (queue.poll(completion) == 0) {
      const Status waited =
          polls ? Status::kOk : queue.wait(std::chrono::nanoseconds(20'000'000'000));
      if (waited != Status::kOk) return {};
    }
    if (completion[0].status != NKV_STATUS_OK) return {};
    times.push_back(std::chrono::duration<double, std::micro>(Clock::now() - start).count());
  }
  std::ranges::sort(times);
  return times;
}

nlohmann::ordered_json summary(const std::vector<double>& sorted) {
  if (sorted.empty()) return nullptr;
  const auto at = [&sorted](double share) {
    return sorted[static_cast<std::size_t>(share * static_cast<double>(sorted.size() - 1))];
  };
  return {{"p50_us", at(0.5)}, {"p90_us", at(0.9)}, {"p99_us", at(0.99)}};
}

int run(const std::string& uri) {
  std::string reason;
  std::unique_ptr<Device> device;
  std::unique_ptr<Queue> queue;
  Queue::Options options;
  options.window_bytes = 1 << 20;
  if (nearkv::open_device(uri, &device, &reason) != Status::kOk ||
      Queue::open(device.get(), options, &queue) != Status::kOk) {
    std::cerr << "nearkv_card_latency: " << reason << '\n';
    return EXIT_FAILURE;
  }
  const nlohmann::ordered_json results{{"device", uri},
                                       {"commands", kCommands},
                                       {"polled", summary(measure(*queue, true))},
                                       {"waited", summary(measure(*queue, false))}};
  std::cout << results.dump(2) << '\n';
  return results["polled"].is_null() || results["waited"].is_null() ? EXIT_FAILURE : EXIT_SUCCESS;
}

}  // namespace

int main(int count, char** words) {
  try {
    return run(count > 1 ? words[1] : "linux:/dev/nearkv0?memory=1MiB");
  } catch (const std::exception& error) {
    std::cerr << "nearkv_card_latency: " << error.what() << '\n';
    return EXIT_FAILURE;
  }
}
