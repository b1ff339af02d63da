// nearkv_rtl_bench: cycles of commands on the Verilated engine, beside the bursts that they read.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <functional>
#include <iostream>
#include <span>
#include <utility>
#include <vector>

#include "access_latencies.hpp"
#include "copy/rounds.hpp"
#include "list_bench.hpp"
#include "support/many_queues.hpp"
#include "support/page_commands.hpp"
#include "support/temporary_file.hpp"
#include "table.hpp"

namespace nearkv {
namespace {

using bench::AccessLatencies;
using bench::AddressRange;
using bench::ListBench;
using bench::Table;

struct Options {
  std::string device = "rtl:?memory=256MiB&latency=60";
  std::uint32_t tokens = 32768;
  std::vector<std::string> only;
  std::string json;
};

/// Calls run(name, command) with every command that reads the list of `bench`.
template <typename Run>
void for_each_command(ListBench* bench, std::uint16_t top_k, const Run& run) {
  const std::vector<std::uint16_t> queries = test::make_queries(bench->data, 8, 3.0, 11);
  nkv_topk_command topk =
      test::topk_command(&bench->engine, bench->list, queries, top_k, NKV_SELECT_FULL);
  run("topk_full", topk);
  if (bench->form == NKV_ROW_FORM_RAW) {
    const std::vector<float> weights{0.5F, -0.25F, 1, 0.75F, -0.5F, 0.25F, 1, 0.125F};
    topk.mode = NKV_SELECT_INDEXER;
    topk.weights = bench->engine.store(std::span<const float>(weights));
    run("topk_indexer", topk);
  }
  run("attend_dense", test::attend_command(&bench->engine, bench->list, queries));
  run("scrub", test::pages_command(bench->list, NKV_OPCODE_SCRUB));
}

void measure_commands(const std::string& name, ListBench& bench, Table* table) {
  table->measure_append(name + "/append", bench);
  for_each_command(&bench, 256, [&](const std::string& command_name, const auto& command) {
    // SCRUB's completion does not count what it reads.
    table->measure(name + "/" + command_name, bench, command,
                   command_name == "scrub" ? bench.page_bursts() : 0);
  });
}

/// Pages to other places; all rows back, which are read twice: verified, then returned; 256 rows in
/// no order.
void measure_moves(const std::string& name, ListBench& bench, Table* table) {
  const std::uint64_t tokens = bench.list.tokens;
  const std::uint64_t row_bursts = nkv_row_bytes(bench.form, NKV_DTYPE_BF16, 128) / NKV_BURST_BYTES;
  const std::uint64_t copies =
      test::free_places(&bench.engine, bench.list, bench.list.page_bytes, 9);
  // As many bursts are written.
  table->measure(name + "/copy", bench, test::pages_command(bench.list, NKV_OPCODE_COPY, copies),
                 bench.page_bursts());
  nkv_read_command read{};
  read.opcode = NKV_OPCODE_READ;
  read.tensor = NKV_TENSOR_BOTH;
  read.count = static_cast<std::uint32_t>(tokens);
  read.page_list = bench.list.page_list;
  read.result = bench.engine.allocate(tokens * 2 * (bench.list.head_dim + bench.list.value_dim));
  table->measure(name + "/read", bench, read, 4 * row_bursts * tokens);
  std::vector<std::uint32_t> ids(256);
  for (std::uint64_t i = 0; i < ids.size(); ++i) {
    ids[i] = static_cast<std::uint32_t>(3007 * i % tokens);
  }
  nkv_gather_command gather{};
  gather.opcode = NKV_OPCODE_GATHER;
  gather.tensor = NKV_TENSOR_BOTH;
  gather.tokens = read.count;
  gather.count = static_cast<std::uint32_t>(ids.size());
  gather.ids = bench.engine.store(std::span<const std::uint32_t>(ids));
  gather.page_list = bench.list.page_list;
  gather.result = read.result;
  table->measure(name + "/gather", bench, gather);
}

/// Pages to each codec and back; counted are the bursts of their rows, all bf16.
void measure_transcodes(const std::string& name, ListBench& bench, Table* table) {
  constexpr std::pair<const char*, std::uint8_t> kCodecs[] = {
      {"int8", NKV_CODEC_INT8}, {"int4", NKV_CODEC_INT4}, {"fp8", NKV_CODEC_FP8}};
  const std::uint64_t row_bytes = 2 * (bench.list.head_dim + bench.list.value_dim);
  const std::uint64_t row_bursts = bench.list.tokens * row_bytes / NKV_BURST_BYTES;
  for (const auto& [codec_name, codec] : kCodecs) {
    const std::string row = name + "/transcode_" + codec_name;
    // Half a page of RAW rows and more than any of these.
    const nkv_pages_command cool =
        test::transcode_command(&bench.engine, bench.list, codec, 20 << 10, 1);
    table->measure(row, bench, cool, row_bursts);
    test::StoredList cold = bench.list;
    cold.page_list = cool.destination;
    table->measure(row + "_back", bench,
                   test::transcode_command(&bench.engine, cold, NKV_CODEC_NONE, 38 << 10, 2),
                   row_bursts);
  }
}

void measure_form(const Options& options, std::uint8_t form, const std::string& name,
                  Table* table) {
  ListBench bench(options.device, options.tokens, form);
  measure_commands(name, bench, table);
  measure_moves(name, bench, table);
  if (form == NKV_ROW_FORM_RAW) measure_transcodes(name, bench, table);
}

/// Four times as long a list: what a selection takes of it.
void measure_long(const Options& options, Table* table) {
  ListBench bench(options.device, 4 * options.tokens, NKV_ROW_FORM_RAW);
  const std::vector<std::uint16_t> queries = test::make_queries(bench.data, 8, 3.0, 11);
  table->measure("long/topk_full", bench,
                 test::topk_command(&bench.engine, bench.list, queries, 256, NKV_SELECT_FULL));
}

/// A search while the host reads in so many of 100 cycles.
void measure_beside_host(const Options& options, unsigned percent, Table* table) {
  const std::string name = "host_" + std::to_string(percent) + "/topk_full";
  ListBench bench(options.device + "&host=" + std::to_string(percent), options.tokens,
                  NKV_ROW_FORM_RAW);
  const std::vector<std::uint16_t> queries = test::make_queries(bench.data, 8, 3.0, 11);
  table->measure(name, bench,
                 test::topk_command(&bench.engine, bench.list, queries, 256, NKV_SELECT_FULL));
  if (!table->failed()) table->add_host(name, bench.host());
}

/// On memory with the times of DRAM.
void measure_dram(const Options& options, const std::string& name, Table* table) {
  table->set_dram(dram::find_timing(name));
  ListBench bench(options.device + "&dram=" + name, options.tokens, NKV_ROW_FORM_RAW);
  measure_commands(name, bench, table);
  table->set_dram(nullptr);
}

AddressRange pages_of(ListBench& bench, std::uint64_t window) {
  std::vector<std::uint64_t> begins;
  for (std::size_t i = 0; i < bench.list.pages(); ++i) {
    const auto& entry = bench.engine.at<nkv_page_entry>(bench.list.page_list)[i];
    begins.push_back(window + std::uint64_t{entry.page} * NKV_PAGE_GRAIN_BYTES);
  }
  const auto [first, last] = std::ranges::minmax(begins);
  return {.begin = first, .end = last + bench.list.page_bytes};
}

/// What commands over few pages wait for before their data come and after.
void measure_latencies(const Options& options, Table* table) {
  const test::TemporaryFile trace("rtl_bench");
  std::vector<std::string> names;
  AddressRange window{};
  AddressRange pages{};
  {
    ListBench bench(options.device + "&trace=" + trace.path().string(), 256, NKV_ROW_FORM_RAW);
    names.emplace_back("append");
    const std::size_t memory_bytes = bench.engine.device().memory().size();
    window = {.begin = memory_bytes - bench.engine.window().size(), .end = memory_bytes};
    pages = pages_of(bench, window.begin);
    const auto run = [&](const std::string& name, const auto& command) {
      table->check(name, bench.engine.run(command));
      names.push_back(name);
    };
    run("nop", nkv_append_command{});
    for_each_command(&bench, 16, run);
    run("erase", test::pages_command(bench.list, NKV_OPCODE_ERASE));
  }
  const std::vector<AccessLatencies> latencies =
      bench::access_latencies(trace.path(), window, pages);
  for (std::size_t i = 0; i < names.size(); ++i) {
    const std::string name = "latency/" + names[i];
    const AccessLatencies& latency = latencies.at(i);
    if (latency.first_read) table->add_latency(name + "/first_read", *latency.first_read);
    if (latency.first_page) table->add_latency(name + "/first_page", *latency.first_page);
    table->add_latency(name + "/completion", latency.completion);
  }
}

void measure_small(const Options& options, Table* table) {
  ListBench small(options.device, 256, NKV_ROW_FORM_RAW);
  table->measure("nop", small, nkv_append_command{});
  const std::vector<std::uint16_t> queries = test::make_queries(small.data, 8, 3.0, 11);
  table->measure("small/topk_full", small,
                 test::topk_command(&small.engine, small.list, queries, 16, NKV_SELECT_FULL));
  table->measure("small/attend_dense", small,
                 test::attend_command(&small.engine, small.list, queries));
}

/// Commands of four pages from all queues at once: what lies between commands shows.
void measure_many_queues(const Options& options, Table* table) {
  constexpr std::uint32_t kTokens = 4 * NKV_PAGE_TOKENS;
  ListBench bench(options.device, kTokens, NKV_ROW_FORM_RAW);
  const std::vector<std::uint16_t> queries = test::make_queries(bench.data, 8, 3.0, 11);
  test::ManyQueues queues(&bench.engine, NKV_MAX_QUEUES);
  std::vector<nkv_attend_command> attends;
  attends.reserve(NKV_MAX_QUEUES);
  for (unsigned i = 0; i < NKV_MAX_QUEUES; ++i) {
    attends.push_back(test::attend_command(&bench.engine, bench.list, queries));
  }
  const std::uint64_t row_bursts = std::uint64_t{kTokens} * 2 * 2 * 128 / NKV_BURST_BYTES;
  table->measure_queues("queues_16/attend_dense", &queues, attends, row_bursts);
  const std::vector scrubs(NKV_MAX_QUEUES, test::pages_command(bench.list, NKV_OPCODE_SCRUB));
  const std::uint64_t page_bursts = bench.list.page_bytes / NKV_BURST_BYTES;
  table->measure_queues("queues_16/scrub", &queues, scrubs, page_bursts * bench.list.pages());
}

/// As many queues as slices, and so engines, over lists of their own, alike: a slice more brings as
/// much work more, so that cycles should stay.
void measure_slices(const Options& options, unsigned slices, Table* table) {
  const std::string group = "slices_" + std::to_string(slices);
  const std::uint32_t tokens = std::min(options.tokens, 4096U);
  ListBench bench(options.device + "&slices=" + std::to_string(slices), tokens, NKV_ROW_FORM_RAW);
  const std::vector<std::uint16_t> queries = test::make_queries(bench.data, 8, 3.0, 11);
  std::vector<test::StoredList> lists{bench.list};
  for (unsigned i = 1; i < slices; ++i) {
    lists.push_back(test::append(&bench.engine, bench.data, bench.form, bench.form));
  }
  std::vector<std::uint64_t> places;
  places.reserve(lists.size());
  for (const test::StoredList& list : lists) {
    places.push_back(test::free_places(&bench.engine, list, list.page_bytes, 9));
  }
  std::vector<nkv_pages_command> scrubs;
  std::vector<nkv_pages_command> copies;
  std::vector<nkv_topk_command> full;
  std::vector<nkv_attend_command> dense;
  for (unsigned i = 0; i < slices; ++i) {
    scrubs.push_back(test::pages_command(lists[i], NKV_OPCODE_SCRUB));
    copies.push_back(test::pages_command(lists[i], NKV_OPCODE_COPY, places[i]));
    full.push_back(test::topk_command(&bench.engine, lists[i], queries, 256, NKV_SELECT_FULL));
    dense.push_back(test::attend_command(&bench.engine, lists[i], queries));
  }
  test::ManyQueues queues(&bench.engine, slices);
  table->measure_queues(group + "/scrub", &queues, scrubs, bench.page_bursts());
  table->measure_queues(group + "/copy", &queues, copies, 2 * bench.page_bursts());
  table->measure_queues(group + "/topk_full", &queues, full);
  table->measure_queues(group + "/attend_dense", &queues, dense);
}

int run(int argc, char** argv) {
  Options options;
  CLI::App app{"Cycles of commands on the Verilated engine, beside the bursts that they read."};
  app.add_option("--device", options.device, "An rtl: URI")->capture_default_str();
  app.add_option("--tokens", options.tokens, "Tokens of a list")->capture_default_str();
  app.add_option(
      "--only", options.only,
      "Groups of rows: small, queues_16, slices, raw, delta4, long, ddr5, ddr4, latency, host_25, "
      "host_50");
  app.add_option("--json", options.json, "Where to write the results");
  CLI11_PARSE(app, argc, argv);
  Table table;
  const std::vector<std::pair<std::string, std::function<void()>>> groups{
      {"small", [&] { measure_small(options, &table); }},
      {"queues_16", [&] { measure_many_queues(options, &table); }},
      {"slices",
       [&] {
         for (const unsigned slices : {1U, 2U, 4U}) measure_slices(options, slices, &table);
       }},
      {"raw", [&] { measure_form(options, NKV_ROW_FORM_RAW, "raw", &table); }},
      {"delta4", [&] { measure_form(options, NKV_ROW_FORM_DELTA4, "delta4", &table); }},
      {"long", [&] { measure_long(options, &table); }},
      {"ddr5", [&] { measure_dram(options, "ddr5", &table); }},
      {"ddr4", [&] { measure_dram(options, "ddr4", &table); }},
      {"latency", [&] { measure_latencies(options, &table); }},
      {"host_25", [&] { measure_beside_host(options, 25, &table); }},
      {"host_50", [&] { measure_beside_host(options, 50, &table); }},
  };
  for (const auto& [name, measure] : groups) {
    if (options.only.empty() || std::ranges::find(options.only, name) != options.only.end()) {
      measure();
    }
  }
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
