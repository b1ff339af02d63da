#include "table.hpp"

#include <algorithm>
#include <cstdio>
#include <iostream>

#include "fabric/dram/dram.hpp"

namespace nearkv::bench {
namespace {

/// What DRAM takes to give so many bursts in sequence, as fast as the port can ask.
std::uint64_t stream_cycles(const dram::Timing& timing, std::uint64_t bursts) {
  dram::Dram memory(timing, dram::Dram::least_latency(timing));
  std::uint64_t asked = 0;
  std::uint64_t cycles = 0;
  for (std::uint64_t answered = 0; answered < bursts; ++cycles) {
    if (asked < bursts && memory.takes_reads()) {
      memory.read(asked, asked * dram::kLineBytes);
      ++asked;
    }
    memory.advance();
    if (memory.answered_read()) ++answered;
  }
  return cycles;
}

unsigned percentile(const emulator::HostRecord& host, unsigned percent) {
  std::uint64_t below = 0;
  for (unsigned cycles = 0; cycles < host.cycles.size(); ++cycles) {
    below += host.cycles.at(cycles);
    if (below * 100 >= host.reads * percent) return cycles;
  }
  return static_cast<unsigned>(host.cycles.size());
}

}  // namespace

void Table::check(const std::string& name, const nkv_completion& done) {
  if (done.status == NKV_STATUS_OK) return;
  std::cerr << name << ": " << nkv_status_message(done.status) << '\n';
  failed_ = true;
}

void Table::add_latency(const std::string& name, std::uint64_t cycles) {
  std::printf("%-34s %9llu cycles\n", name.c_str(), static_cast<unsigned long long>(cycles));
  results_.push_back({{"name", name}, {"cycles", cycles}, {"bursts", 0}});
}

void Table::add_host(const std::string& name, const emulator::HostRecord& host) {
  if (host.wrong != 0 || host.reads == 0) {
    std::cerr << name << ": the host read " << host.wrong << " wrong of " << host.reads << '\n';
    failed_ = true;
    return;
  }
  const unsigned p50 = percentile(host, 50);
  const unsigned p99 = percentile(host, 99);
  std::printf("%-34s host reads: p50 %u, p99 %u cycles\n", name.c_str(), p50, p99);
  results_.back().update({{"host_p50", p50}, {"host_p99", p99}});
}

void Table::add_stream(std::uint64_t bursts) {
  const std::uint64_t cycles = stream_cycles(*dram_, bursts);
  nlohmann::json& row = results_.back();
  std::printf("%-34s %5.3f of the %llu cycles of a stream\n", "",
              row["cycles"].get<double>() / static_cast<double>(cycles),
              static_cast<unsigned long long>(cycles));
  row["dram_cycles"] = cycles;
}

void Table::add(const std::string& name, const nkv_completion& done, std::uint64_t bursts,
                double seconds) {
  check(name, done);
  if (failed_) return;
  const std::uint64_t cycles = done.ticks;
  std::printf("%-34s %9llu cycles %9llu bursts  %5.3f cycles/burst  %7.0f k cycles/s\n",
              name.c_str(), static_cast<unsigned long long>(cycles),
              static_cast<unsigned long long>(bursts),
              static_cast<double>(cycles) / static_cast<double>(std::max<std::uint64_t>(bursts, 1)),
              static_cast<double>(cycles) / seconds / 1000);
  results_.push_back(
      {{"name", name}, {"cycles", cycles}, {"bursts", bursts}, {"seconds", seconds}});
  std::fflush(stdout);
}

}  // namespace nearkv::bench
