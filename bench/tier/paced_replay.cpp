// A trace's requests, faster than they came: whether a store of real bytes keeps up.
#include <algorithm>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <thread>

#include "cases.hpp"
#include "index/report.hpp"
#include "replay.hpp"
#include "requests.hpp"
#include "store.hpp"

namespace nearkv::tier_bench {
namespace {

using Clock = std::chrono::steady_clock;

double milliseconds(Clock::duration duration) {
  return std::chrono::duration<double, std::milli>(duration).count();
}

double percentile(std::vector<double> values, double percent) {
  std::ranges::sort(values);
  return values[static_cast<std::size_t>(percent / 100 * static_cast<double>(values.size() - 1))];
}

class PacedReplay {
 public:
  PacedReplay(const replay::Trace& trace, const std::string& policy, const TraceOptions& options)
      : trace_(trace), options_(options), rest_(options.block_bytes - sizeof(std::uint64_t)) {
    const auto blocks =
        static_cast<std::uint64_t>(options.capacity * static_cast<double>(trace.hash_ids.size()));
    capacity_blocks_ = std::max<std::uint64_t>(blocks, longest_request());
    ObjectStore::Options store_options;
    store_options.eviction = policy;
    store_ = create_store_for("", capacity_blocks_, options.block_bytes, store_options);
    namespace_number_ = open_namespace(store_.get(), 1, "replay");
    arrived_.resize(longest_request() * options.block_bytes);
  }

  void run() {
    const Clock::time_point start = Clock::now();
    for (std::size_t index = 0; index < trace_.requests(); ++index) {
      const std::chrono::duration<double, std::milli> since(
          static_cast<double>(trace_.arrivals_ms[index]) / options_.speed);
      const Clock::time_point due = start + std::chrono::duration_cast<Clock::duration>(since);
      std::this_thread::sleep_until(due);
      const Clock::time_point begun = Clock::now();
      serve(trace_.request(index));
      lags_ms_.push_back(std::max(0.0, milliseconds(begun - due)));
      served_ms_.push_back(milliseconds(Clock::now() - begun));
    }
    seconds_ = std::chrono::duration<double>(Clock::now() - start).count();
  }

  void report(const std::string& name, Rows* rows) const {
    const auto bound = static_cast<double>(replay::infinite_hits(trace_));
    const ObjectStoreStats stats = store_->stats();
    const nlohmann::json extra = {{"speed", options_.speed},
                                  {"requests", trace_.requests()},
                                  {"blocks", trace_.blocks.size()},
                                  {"block_bytes", options_.block_bytes},
                                  {"capacity_blocks", capacity_blocks_},
                                  {"prefix_hits", hits_},
                                  {"bound", bound},
                                  {"moved_bytes", stats.set_bytes + stats.get_bytes},
                                  {"evictions", stats.evictions},
                                  {"seconds", seconds_}};
    const auto add = [&](const char* what, const char* unit, double reading) {
      rows->add({.name = name + "/" + what, .unit = unit, .readings = {reading}, .extra = extra});
    };
    add("hits_of_bound", "of bound", static_cast<double>(hits_) / bound);
    add("lag_p99", "ms", percentile(lags_ms_, 99));
    add("serve_p50", "ms", percentile(served_ms_, 50));
    add("serve_p99", "ms", percentile(served_ms_, 99));
    add("busy", "of the time",
        std::accumulate(served_ms_.begin(), served_ms_.end(), 0.0) / 1e3 / seconds_);
    add("moved", "GB/s", static_cast<double>(stats.set_bytes + stats.get_bytes) / 1e9 / seconds_);
  }

 private:
  [[nodiscard]] std::size_t longest_request() const {
    std::size_t longest = 0;
    for (std::size_t i = 0; i < trace_.requests(); ++i) {
      longest = std::max(longest, trace_.request(i).size());
    }
    return longest;
  }

  /// Loads the longest prefix, then stores what is new of the prompt.
  void serve(std::span<const std::uint32_t> blocks) {
    if (blocks.empty()) return;
    std::vector<BlockKey> keys;
    keys.reserve(blocks.size());
    for (const std::uint32_t block : blocks) keys.push_back(key_of(block));
    const std::vector<Key> chain(keys.begin(), keys.end());
    const std::size_t found = store_->match_prefix(namespace_number_, chain);
    load(blocks.first(found), chain);
    hits_ += found;
    store(blocks, chain, found);
  }

  void load(std::span<const std::uint32_t> blocks, std::span<const Key> chain) {
    std::vector<std::span<std::byte>> targets;
    targets.reserve(blocks.size());
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      targets.push_back(
          std::span(arrived_).subspan(i * options_.block_bytes, options_.block_bytes));
    }
    std::vector<ObjectItem> items(blocks.size());
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      items[i] = get_item(chain[i], std::span(&targets[i], 1));
    }
    Job job;
    job.namespace_number = namespace_number_;
    job.items = items;
    run_all_ok(store_.get(), job, "loading a prefix");
    for (std::size_t i = 0; i < blocks.size(); ++i) {
      std::uint64_t stored = 0;
      std::memcpy(&stored, targets[i].data(), sizeof(stored));
      if (stored != blocks[i]) throw std::runtime_error("a block of another prompt was loaded");
    }
  }

  void store(std::span<const std::uint32_t> blocks, std::span<const Key> chain, std::size_t first) {
    const std::vector<std::uint64_t> numbers(blocks.begin(), blocks.end());
    std::vector<std::array<std::span<const std::byte>, 2>> sources;
    sources.reserve(numbers.size());
    for (const std::uint64_t& number : numbers) {
      sources.push_back({std::as_bytes(std::span(&number, 1)), rest_});
    }
    std::vector<ObjectItem> items;
    for (std::size_t i = first; i < blocks.size(); ++i) {
      items.push_back(set_item(chain[i], sources[i]));
    }
    if (items.empty()) return;
    Job job;
    job.kind = JobKind::kSet;
    job.namespace_number = namespace_number_;
    job.items = items;
    job.chain = true;
    if (first != 0) job.parent = chain[first - 1];
    run_all_ok(store_.get(), job, "storing a prompt");
  }

  const replay::Trace& trace_;
  const TraceOptions& options_;
  std::vector<std::byte> rest_;
  std::vector<std::byte> arrived_;
  std::uint64_t capacity_blocks_ = 0;
  std::unique_ptr<ObjectStore> store_;
  std::uint32_t namespace_number_ = 0;
  std::uint64_t hits_ = 0;
  double seconds_ = 0;
  std::vector<double> lags_ms_;
  std::vector<double> served_ms_;
};

/// The first requests of a trace, as a trace of their own.
replay::Trace first_requests(replay::Trace trace, std::uint64_t most) {
  if (most == 0 || most >= trace.requests()) return trace;
  trace.ends.resize(most);
  trace.arrivals_ms.resize(most);
  trace.blocks.resize(trace.ends.back());
  const auto largest = std::ranges::max_element(trace.blocks);
  trace.hash_ids.resize(largest == trace.blocks.end() ? 0 : std::size_t{*largest} + 1);
  return trace;
}

}  // namespace

void measure_paced_replay(const TraceOptions& options, Rows* rows) {
  for (const std::string& path : options.traces) {
    const replay::Trace trace = first_requests(load_trace(path), options.most_requests);
    for (const std::string& policy : options.policies) {
      PacedReplay replay(trace, policy, options);
      replay.run();
      replay.report("replay/" + std::filesystem::path(path).stem().string() + "/" + policy, rows);
    }
  }
}

}  // namespace nearkv::tier_bench
