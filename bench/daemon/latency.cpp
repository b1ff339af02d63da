// Latencies of small batches.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <functional>

#include "cases.hpp"

namespace nearkv::bench {
namespace {

using Clock = std::chrono::steady_clock;

struct Batch {
  const char* name;
  JobKind kind;
  std::size_t items;
  std::size_t bytes;
};

constexpr Batch kBatches[] = {
    {"exists/1", JobKind::kExists, 1, 0},     {"exists/64", JobKind::kExists, 64, 0},
    {"get/1x4KiB", JobKind::kGet, 1, 4096},   {"get/16x4KiB", JobKind::kGet, 16, 4096},
    {"get/1x64KiB", JobKind::kGet, 1, 65536}, {"set/1x4KiB", JobKind::kSet, 1, 4096},
    {"set/16x4KiB", JobKind::kSet, 16, 4096},
};

/// A batch's job over a contestant's own memory.
class Prepared {
 public:
  Prepared(const Batch& batch, Contestant* contestant) : contestant_(contestant) {
    for (std::size_t i = 0; i < batch.items; ++i) {
      keys_.push_back(key_of(1'000'000 * batch.bytes + i));
      const std::span<std::byte> place = contestant->memory.subspan(i * batch.bytes, batch.bytes);
      targets_.push_back(place);
      sources_.emplace_back(place);
    }
    items_.resize(batch.items);
    for (std::size_t i = 0; i < batch.items; ++i) {
      items_[i].key = keys_[i];
      if (batch.bytes != 0) items_[i].source = std::span(&sources_[i], 1);
      items_[i].target = std::span(&targets_[i], 1);
    }
    job_.namespace_number = contestant->space;
    job_.items = items_;
    if (batch.bytes == 0) {
      for (std::size_t i = 0; i < batch.items; ++i) {
        sources_[i] = contestant->memory.first(64);
        items_[i].source = std::span(&sources_[i], 1);
      }
    }
    job_.kind = JobKind::kSet;
    run(contestant, job_);
    job_.kind = batch.kind;
    job_.overwrite = batch.kind == JobKind::kSet;
  }

  void call() { run(contestant_, job_); }

 private:
  Contestant* contestant_;
  std::vector<std::vector<std::byte>> keys_;
  std::vector<std::span<std::byte>> targets_;
  std::vector<std::span<const std::byte>> sources_;
  std::vector<ObjectItem> items_;
  Job job_;
};

struct Latency {
  double median_us = 0;
  double p99_us = 0;
};

Latency measure(Prepared* prepared, int calls) {
  std::vector<double> us(static_cast<std::size_t>(calls));
  for (double& time : us) {
    const auto begin = Clock::now();
    prepared->call();
    time = std::chrono::duration<double, std::micro>(Clock::now() - begin).count();
  }
  std::ranges::sort(us);
  return {us[us.size() / 2], us[us.size() * 99 / 100]};
}

double median(std::vector<double> values) {
  std::ranges::sort(values);
  return values[values.size() / 2];
}

}  // namespace

void compare_latencies(const Options& options, const std::string& where, Contestant* local,
                       Contestant* daemon, nlohmann::json* results) {
  std::printf("latency, %s\n", where.c_str());
  std::printf("                        in process          daemon              it adds\n");
  std::printf(
      "                        median     p99      median     p99      median     p99 us\n");
  for (const Batch& batch : kBatches) {
    Prepared here(batch, local);
    Prepared there(batch, daemon);
    std::vector<double> columns[6];
    for (int round = 0; round < options.rounds; ++round) {
      const Latency own = measure(&here, options.calls);
      const Latency served = measure(&there, options.calls);
      const double row[] = {own.median_us,
                            own.p99_us,
                            served.median_us,
                            served.p99_us,
                            served.median_us - own.median_us,
                            served.p99_us - own.p99_us};
      for (std::size_t i = 0; i < 6; ++i) columns[i].push_back(row[i]);
    }
    std::printf("  %-18s", batch.name);
    for (const auto& column : columns) std::printf("%10.2f", median(column));
    std::printf("\n");
    const auto [least, most] = std::ranges::minmax_element(columns[4]);
    results->push_back({{"name", "daemon/adds/" + where + "/" + batch.name},
                        {"unit", "us"},
                        {"median", median(columns[4])},
                        {"min", *least},
                        {"max", *most},
                        {"extra",
                         {{"p99", median(columns[5])},
                          {"in_process", median(columns[0])},
                          {"in_process_p99", median(columns[1])},
                          {"daemon", median(columns[2])},
                          {"daemon_p99", median(columns[3])}}}});
  }
}

}  // namespace nearkv::bench
