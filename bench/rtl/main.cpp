// nearkv_rtl_bench: cycles of commands on the Verilated engine, beside the bursts that they read.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <iostream>
#include <span>

#include "copy/rounds.hpp"
#include "support/bench_device.hpp"
#include "support/page_commands.hpp"
#include "verilated/host_traffic.hpp"

namespace nearkv {
namespace {

using emulator::HostRecord;
using test::BenchDevice;
using test::StoredList;

struct Options {
  std::string device = "rtl:?memory=64MiB&latency=60";
  std::uint32_t tokens = 32768;
  std::string json;
};

double seconds_since(std::chrono::steady_clock::time_point begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

/// A list on the engine, and how long it took to build it.
struct Bench {
  BenchDevice engine;
  test::KvData data;
  StoredList list;
  double append_seconds = 0;

  Bench(const std::string& uri, std::uint32_t tokens, std::uint8_t form)
      : engine(uri), data(test::make_kv(test::Shape::kTopics, tokens, 128, 128, 7)) {
    engine.allocate(4096);  // So that address 0 is no page.
    const auto begin = std::chrono::steady_clock::now();
    list = test::append(&engine, data, form, form);
    append_seconds = seconds_since(begin);
  }

  /// What APPEND read and wrote, but for the page list.
  [[nodiscard]] std::uint64_t append_bursts() const {
    const std::uint64_t row_bytes = 2 * (list.head_dim + list.value_dim);
    return list.pages() * (NKV_PAGE_TOKENS * row_bytes + list.page_bytes) / NKV_BURST_BYTES;
  }

  /// What the host saw, on a device that has one.
  [[nodiscard]] HostRecord host() {
    HostRecord record{};
    std::ranges::copy(engine.device().memory().last(sizeof(record)),
                      std::as_writable_bytes(std::span(&record, 1)).begin());
    return record;
  }
};

class Table {
 public:
  /// `bursts`: what the command reads, where its completion does not count it.
  template <typename Command>
  void measure(const std::string& name, Bench& bench, const Command& command,
               std::uint64_t bursts = 0) {
    const auto begin = std::chrono::steady_clock::now();
    const nkv_completion done = bench.engine.run(command);
    bursts += std::uint64_t{done.stream_bursts} + done.refine_bursts + done.exact_bursts +
              done.value_bursts;
    add(name, done, bursts, seconds_since(begin));
  }

  void measure_append(const std::string& name, const Bench& bench) {
    add(name, bench.list.completion, bench.append_bursts(), bench.append_seconds);
  }

  /// Adds the host's latencies to the last row.
  void add_host(const std::string& name, const HostRecord& host) {
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

  [[nodiscard]] const nlohmann::json& results() const { return results_; }
  [[nodiscard]] bool failed() const { return failed_; }

 private:
  static unsigned percentile(const HostRecord& host, unsigned percent) {
    std::uint64_t below = 0;
    for (unsigned cycles = 0; cycles < host.cycles.size(); ++cycles) {
      below += host.cycles.at(cycles);
      if (below * 100 >= host.reads * percent) return cycles;
    }
    return static_cast<unsigned>(host.cycles.size());
  }

  void add(const std::string& name, const nkv_completion& done, std::uint64_t bursts,
           double seconds) {
    if (done.status != NKV_STATUS_OK) {
      std::cerr << name << ": " << nkv_status_message(done.status) << '\n';
      failed_ = true;
      return;
    }
    const std::uint64_t cycles = done.ticks;
    std::printf(
        "%-34s %9llu cycles %9llu bursts  %5.3f cycles/burst  %7.0f k cycles/s\n", name.c_str(),
        static_cast<unsigned long long>(cycles), static_cast<unsigned long long>(bursts),
        static_cast<double>(cycles) / static_cast<double>(std::max<std::uint64_t>(bursts, 1)),
        static_cast<double>(cycles) / seconds / 1000);
    std::fflush(stdout);
    results_.push_back(
        {{"name", name}, {"cycles", cycles}, {"bursts", bursts}, {"seconds", seconds}});
  }

  nlohmann::json results_ = nlohmann::json::array();
  bool failed_ = false;
};

void measure_form(const Options& options, std::uint8_t form, const std::string& name,
                  Table* table) {
  constexpr std::uint16_t kTopK = 256;
  Bench bench(options.device, options.tokens, form);
  table->measure_append(name + "/append", bench);
  const std::vector<std::uint16_t> queries = test::make_queries(bench.data, 8, 3.0, 11);
  nkv_topk_command topk =
      test::topk_command(&bench.engine, bench.list, queries, kTopK, NKV_SELECT_FULL);
  table->measure(name + "/topk_full", bench, topk);
  topk.mode = NKV_SELECT_CERTIFIED;
  table->measure(name + "/topk_certified", bench, topk);
  topk.mode = NKV_SELECT_STATISTICAL;
  topk.planes = 2;
  table->measure(name + "/topk_statistical", bench, topk);
  if (form == NKV_ROW_FORM_RAW) {
    const std::vector<float> weights{0.5F, -0.25F, 1, 0.75F, -0.5F, 0.25F, 1, 0.125F};
    topk.mode = NKV_SELECT_INDEXER;
    topk.weights = bench.engine.store(std::span<const float>(weights));
    table->measure(name + "/topk_indexer", bench, topk);
  }
  nkv_attend_command attend = test::attend_command(&bench.engine, bench.list, queries);
  table->measure(name + "/attend_dense", bench, attend);
  attend.mode = NKV_ATTEND_MODE_TAIL;
  attend.top_k = 64;
  table->measure(name + "/attend_tail", bench, attend);
  const std::uint64_t page_bursts = bench.list.page_bytes / NKV_BURST_BYTES;
  table->measure(name + "/scrub", bench, test::pages_command(bench.list, NKV_OPCODE_SCRUB),
                 page_bursts * bench.list.pages());
}

/// A search while the host reads in so many of 100 cycles.
void measure_beside_host(const Options& options, unsigned percent, Table* table) {
  const std::string name = "host_" + std::to_string(percent) + "/topk_certified";
  Bench bench(options.device + "&host=" + std::to_string(percent), options.tokens,
              NKV_ROW_FORM_RAW);
  const std::vector<std::uint16_t> queries = test::make_queries(bench.data, 8, 3.0, 11);
  table->measure(name, bench,
                 test::topk_command(&bench.engine, bench.list, queries, 256, NKV_SELECT_CERTIFIED));
  if (!table->failed()) table->add_host(name, bench.host());
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app{"Cycles of commands on the Verilated engine, beside the bursts that they read."};
  app.add_option("--device", options.device, "An rtl: URI")->capture_default_str();
  app.add_option("--tokens", options.tokens, "Tokens of a list")->capture_default_str();
  app.add_option("--json", options.json, "Where to write the results");
  CLI11_PARSE(app, argc, argv);
  Table table;
  {
    Bench small(options.device, 256, NKV_ROW_FORM_RAW);
    table.measure("nop", small, nkv_append_command{});
    const std::vector<std::uint16_t> queries = test::make_queries(small.data, 8, 3.0, 11);
    table.measure("small/topk_certified", small,
                  test::topk_command(&small.engine, small.list, queries, 16, NKV_SELECT_CERTIFIED));
    table.measure("small/attend_dense", small,
                  test::attend_command(&small.engine, small.list, queries));
  }
  measure_form(options, NKV_ROW_FORM_RAW, "raw", &table);
  measure_form(options, NKV_ROW_FORM_DELTA4, "delta4", &table);
  measure_beside_host(options, 25, &table);
  measure_beside_host(options, 50, &table);
  const int status = bench::save_results(options.json, table.results());
  return table.failed() ? 1 : status;
}

}  // namespace
}  // namespace nearkv

int main(int argc, char** argv) {
  try {
    return nearkv::run(argc, argv);
  } catch (const std::exception& error) {
    std::cerr << "nearkv_rtl_bench: " << error.what() << '\n';
    return 1;
  }
}
