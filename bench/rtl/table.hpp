// The bench's rows: printed as they come, kept for the report.
#pragma once

#include <chrono>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "fabric/dram/timing.hpp"
#include "list_bench.hpp"
#include "support/many_queues.hpp"
#include "verilated/host_traffic.hpp"

namespace nearkv::bench {

class Table {
 public:
  /// Rows from now on also tell what a sequential stream of their bursts takes on this DRAM, unless
  /// it is null.
  void set_dram(const dram::Timing* dram) { dram_ = dram; }

  /// `bursts`: what the command reads, where its completion does not count it.
  template <typename Command>
  void measure(const std::string& name, ListBench& bench, const Command& command,
               std::uint64_t bursts = 0) {
    const auto begin = std::chrono::steady_clock::now();
    const nkv_completion done = bench.engine.run(command);
    bursts += done.stream_bursts;
    add(name, done, bursts, seconds_since(begin));
    if (dram_ != nullptr && !failed_) add_stream(bursts);
  }

  void measure_append(const std::string& name, const ListBench& bench) {
    add(name, bench.list.completion, bench.append_bursts(), bench.append_seconds);
  }

  /// Commands of as many queues as there are commands, of `bursts` each, or 0: as many as their
  /// completions count.
  template <typename Command>
  void measure_queues(const std::string& name, test::ManyQueues* queues,
                      const std::vector<Command>& commands, std::uint64_t bursts = 0) {
    constexpr unsigned kTimes = 4;
    const auto begin = std::chrono::steady_clock::now();
    const test::ManyRuns runs = queues->run(commands, kTimes);
    nkv_completion done{};
    done.status = runs.failed ? NKV_STATUS_INTERNAL : NKV_STATUS_OK;
    done.ticks = runs.cycles;
    add(name, done, bursts == 0 ? runs.bursts : bursts * runs.commands, seconds_since(begin));
  }

  /// That a command which gives no row did what it should.
  void check(const std::string& name, const nkv_completion& done);
  void add_latency(const std::string& name, std::uint64_t cycles);
  /// Adds the host's latencies to the last row.
  void add_host(const std::string& name, const emulator::HostRecord& host);

  [[nodiscard]] const nlohmann::json& results() const { return results_; }
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  void add_stream(std::uint64_t bursts);
  void add(const std::string& name, const nkv_completion& done, std::uint64_t bursts,
           double seconds);

  nlohmann::json results_ = nlohmann::json::array();
  const dram::Timing* dram_ = nullptr;
  bool failed_ = false;
};

}  // namespace nearkv::bench
