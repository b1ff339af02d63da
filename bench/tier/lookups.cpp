// What is asked of a store that is full of small objects: exists, longest prefixes, a restart.
#include <cstring>
#include <random>
#include <stdexcept>

#include "cases.hpp"
#include "index/report.hpp"
#include "store.hpp"

namespace nearkv::tier_bench {
namespace {

constexpr std::size_t kExists = 1'000'000;  ///< Keys asked for in a round.
constexpr std::size_t kCalls = 100'000;     ///< Single calls timed in a round.
constexpr std::size_t kBatch = 256;
constexpr std::size_t kPromptBlocks = 8;
constexpr std::uint32_t kShortestChain = 16;
constexpr std::uint32_t kLongestChain = 128;
constexpr std::uint64_t kAbsent = std::uint64_t{1} << 40;  ///< Numbers of blocks never stored.

/// A prompt, as numbers of blocks.
using Chain = std::vector<std::uint64_t>;

class LookupBench {
 public:
  LookupBench(const LookupOptions& options, std::string folder, Rows* rows)
      : options_(options), rows_(*rows), file_(folder), folder_(std::move(folder)) {}

  void run() {
    fill();
    exists();
    prefixes();
    restart();
  }

 private:
  /// Chains that go on from the system prompt or from an earlier chain.
  void fill() {
    uri_ = uri_for(file_.path(), options_.objects, options_.object_bytes);
    store_ = create_store_for(file_.path(), options_.objects, options_.object_bytes);
    namespace_number_ = open_namespace(store_.get(), 1, "lookups");
    std::mt19937_64 random(options_.seed);
    Chain prompt(kPromptBlocks);
    for (std::uint64_t& block : prompt) block = next_++;
    store_chain(prompt, 0);
    while (next_ < options_.objects) {
      Chain chain = prompt;
      const std::size_t length =
          std::uniform_int_distribution(kShortestChain, kLongestChain)(random);
      if (!chains_.empty() && random() % 3 == 0) {
        const Chain& earlier = chains_[random() % chains_.size()];
        const std::size_t shared = 1 + random() % std::min(earlier.size(), length);
        chain.assign(earlier.begin(), earlier.begin() + static_cast<std::ptrdiff_t>(shared));
      }
      const std::size_t stored = chain.size();
      while (chain.size() < length && next_ < options_.objects) chain.push_back(next_++);
      store_chain(chain, stored);
      chains_.push_back(std::move(chain));
    }
    extra_ = {{"objects", store_->stats().objects},
              {"object_bytes", options_.object_bytes},
              {"chains", chains_.size()}};
    if (store_->stats().objects != options_.objects) throw std::runtime_error("objects are gone");
  }

  void store_chain(const Chain& chain, std::size_t first) {
    const std::vector<std::byte> rest(options_.object_bytes - sizeof(std::uint64_t), std::byte{7});
    const std::size_t count = chain.size() - first;
    if (count == 0) return;
    std::vector<BlockKey> keys;
    std::vector<std::array<std::span<const std::byte>, 2>> sources;
    for (std::size_t i = 0; i < count; ++i) {
      keys.push_back(key_of(chain[first + i]));
      sources.push_back({std::as_bytes(std::span(&chain[first + i], 1)), rest});
    }
    std::vector<ObjectItem> items(count);
    for (std::size_t i = 0; i < count; ++i) items[i] = set_item(keys[i], sources[i]);
    const BlockKey parent = first == 0 ? BlockKey{} : key_of(chain[first - 1]);
    Job job;
    job.kind = JobKind::kSet;
    job.namespace_number = namespace_number_;
    job.items = items;
    job.chain = true;
    if (first != 0) job.parent = parent;
    run_all_ok(store_.get(), job, "filling the store");
  }

  [[nodiscard]] std::vector<BlockKey> draw_keys(std::size_t count, std::uint64_t seed,
                                                std::uint64_t from) const {
    std::mt19937_64 random(seed);
    std::vector<BlockKey> keys(count);
    for (BlockKey& key : keys) key = key_of(from + random() % options_.objects);
    return keys;
  }

  void exists() {
    std::vector<double> rates;
    std::vector<double> absent_rates;
    for (unsigned round = 0; round < options_.rounds; ++round) {
      rates.push_back(exists_rate(draw_keys(kExists, round, 0), true));
      absent_rates.push_back(exists_rate(draw_keys(kExists, round, kAbsent), false));
    }
    nlohmann::json extra = extra_;
    extra["keys_in_a_call"] = kBatch;
    add("exists/rate", "keys/s", rates, extra);
    add("exists/rate_absent", "keys/s", absent_rates, extra);
    exists_latencies("exists/call", 0);
    exists_latencies("exists/call_absent", kAbsent);
  }

  [[nodiscard]] double exists_rate(const std::vector<BlockKey>& keys, bool there) {
    const std::vector<Key> wanted(keys.begin(), keys.end());
    const auto present = std::make_unique<bool[]>(kBatch);
    std::size_t found = 0;
    const double seconds = bench::seconds([&] {
      for (std::size_t first = 0; first + kBatch <= wanted.size(); first += kBatch) {
        store_->exists(namespace_number_, std::span(wanted).subspan(first, kBatch),
                       {present.get(), kBatch});
        for (std::size_t i = 0; i < kBatch; ++i) found += present[i] ? 1 : 0;
      }
    });
    const std::size_t asked = wanted.size() / kBatch * kBatch;
    if (found != (there ? asked : 0)) throw std::runtime_error("exists gave a wrong answer");
    return static_cast<double>(asked) / seconds;
  }

  void exists_latencies(const std::string& name, std::uint64_t from) {
    std::vector<double> p50;
    std::vector<double> p99;
    p50.reserve(options_.rounds);
    p99.reserve(options_.rounds);
    for (unsigned round = 0; round < options_.rounds; ++round) {
      bench::Latencies latencies;
      for (const BlockKey& drawn : draw_keys(kCalls, 100 + round, from)) {
        const Key key = drawn;
        latencies.time([&] { bench::keep(store_->exists(namespace_number_, std::span(&key, 1))); });
      }
      p50.push_back(latencies.percentile(50));
      p99.push_back(latencies.percentile(99));
    }
    add(name + "_p50", "ns", p50, extra_);
    add(name + "_p99", "ns", p99, extra_);
  }

  /// Requests that share what is stored up to some block, and go on with blocks that are not.
  void prefixes() {
    std::vector<double> p50;
    std::vector<double> p99;
    p50.reserve(options_.rounds);
    p99.reserve(options_.rounds);
    for (unsigned round = 0; round < options_.rounds; ++round) {
      bench::Latencies latencies;
      std::mt19937_64 random(round);
      for (std::size_t call = 0; call < kCalls; ++call) {
        const Chain& chain = chains_[random() % chains_.size()];
        const std::size_t stored = random() % (chain.size() + 1);
        std::vector<BlockKey> keys;
        keys.reserve(chain.size());
        for (std::size_t i = 0; i < chain.size(); ++i) {
          keys.push_back(key_of(i < stored ? chain[i] : kAbsent + chain[i]));
        }
        const std::vector<Key> wanted(keys.begin(), keys.end());
        std::size_t matched = 0;
        latencies.time([&] { matched = store_->match_prefix(namespace_number_, wanted); });
        if (matched != stored) throw std::runtime_error("match_prefix gave a wrong length");
      }
      p50.push_back(latencies.percentile(50));
      p99.push_back(latencies.percentile(99));
    }
    nlohmann::json extra = extra_;
    extra["keys_in_a_call"] = {{"least", kShortestChain}, {"most", kLongestChain}};
    add("prefix/match_p50", "ns", p50, extra);
    add("prefix/match_p99", "ns", p99, extra);
  }

  void restart() {
    std::vector<double> seconds;
    std::vector<double> cpu_seconds;
    for (unsigned round = 0; round < options_.rounds; ++round) {
      store_.reset();
      cpu_seconds.push_back(bench::cpu_seconds(
          [&] { seconds.push_back(bench::seconds([&] { store_ = open_store(uri_); })); },
          CLOCK_PROCESS_CPUTIME_ID));
      if (store_->stats().recovered != options_.objects) {
        throw std::runtime_error("a restart lost objects");
      }
      read_some(round);
    }
    nlohmann::json extra = extra_;
    extra["folder"] = folder_;
    add("restart", "s", seconds, extra);
    add("restart_cpu", "s", cpu_seconds, extra);
  }

  void read_some(std::uint64_t seed) {
    std::mt19937_64 random(seed);
    std::vector<std::byte> bytes(options_.object_bytes);
    for (int i = 0; i < 1000; ++i) {
      const std::uint64_t number = random() % options_.objects;
      const BlockKey key = key_of(number);
      const std::span<std::byte> target = bytes;
      const ObjectItem item = get_item(key, std::span(&target, 1));
      Job job;
      job.namespace_number = namespace_number_;
      job.items = std::span(&item, 1);
      run_all_ok(store_.get(), job, "reading after a restart");
      std::uint64_t stored = 0;
      std::memcpy(&stored, bytes.data(), sizeof(stored));
      if (stored != number) throw std::runtime_error("a restart mixed objects up");
    }
  }

  void add(const std::string& name, const char* unit, const std::vector<double>& readings,
           const nlohmann::json& extra) {
    rows_.add({.name = name, .unit = unit, .readings = readings, .extra = extra});
  }

  const LookupOptions& options_;
  Rows& rows_;
  ScratchFile file_;
  std::string folder_;
  std::string uri_;
  std::unique_ptr<ObjectStore> store_;
  std::uint32_t namespace_number_ = 0;
  std::uint64_t next_ = 0;
  std::vector<Chain> chains_;
  nlohmann::json extra_;
};

/// Of the folder given, or one in memory, or else the temporary one.
std::string folder_with_room(const std::string& wanted, std::uint64_t bytes) {
  if (!wanted.empty()) return wanted;
  const std::string memory = "/dev/shm";
  const bool fits = std::min(free_bytes(memory), available_memory_bytes()) > bytes + bytes / 2;
  return fits ? memory : std::filesystem::temp_directory_path().string();
}

}  // namespace

void measure_lookups(const LookupOptions& options, Rows* rows) {
  LookupOptions scaled = options;
  const std::uint64_t each = options.object_bytes + NKV_OBJECT_GRAIN_BYTES;  // and what is beside
  const std::string folder = folder_with_room(options.folder, options.objects * each);
  const std::uint64_t room = free_bytes(folder) / 2 / each;
  if (room < options.objects) {
    std::fprintf(stderr, "%s has no room for %lu objects: measuring with %lu\n", folder.c_str(),
                 options.objects, room);
    scaled.objects = room;
  }
  LookupBench(scaled, folder, rows).run();
}

}  // namespace nearkv::tier_bench
