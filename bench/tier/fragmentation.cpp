// What slabs lose over a day of several models' blocks, which come, expire and are evicted.
#include <algorithm>
#include <chrono>
#include <cmath>
#include <deque>
#include <numbers>
#include <thread>

#include "cases.hpp"
#include "index/report.hpp"
#include "requests.hpp"
#include "store.hpp"

namespace nearkv::tier_bench {
namespace {

constexpr std::uint64_t kBlockTokens = 512;  // of the traces
constexpr std::uint64_t kMsPerMinute = 60'000;
constexpr std::uint64_t kMsPerHour = 60 * kMsPerMinute;
constexpr std::uint64_t kMsPerSample = 10 * kMsPerMinute;
constexpr std::uint64_t kStoreBytes = std::uint64_t{3} << 30;
constexpr double kNight = 0.2;  // of the day's rate

/// A tenant that serves one model.
struct Model {
  const char* name;
  std::uint64_t bytes_per_token;
  std::uint64_t age_minutes;  ///< Of blocks that nobody has evicted before.
  double quota;               ///< Of the store.
  bool compressed;            ///< To 0.6 to 0.7, by the block.
};

constexpr Model kModels[] = {
    {"llama-3.1-8b bf16", 131072, 20, 0.4, false},
    {"qwen2.5-7b bf16, compressed", 57344, 60, 0.3, true},
    {"deepseek-v3 bf16", 70272, 10, 0.3, false},
    {"llama-3.3-70b fp8", 163840, 30, 0.4, false},
};
constexpr std::size_t kModelCount = std::size(kModels);

std::uint64_t mixed(std::uint64_t number) {
  number = (number + 1) * 0x9e3779b97f4a7c15;
  return number ^ number >> 32;
}

struct Losses {
  std::vector<double> percent;           ///< Of slabs, each sample.
  std::vector<double> rounding_percent;  ///< The part of it that is rounding to grains.
};

class Day {
 public:
  /// `compacts`: the store does, by itself.
  Day(const TraceOptions& options, bool compacts)
      : options_(options),
        compacts_(compacts),
        requests_(options.traces),
        payload_(largest_object()) {
    ObjectStore::Options store_options;
    if (!compacts) store_options.defragment_above = 0;
    store_options.max_objects = 1 << 16;
    store_ =
        create_store("cpu:?memory=" + std::to_string(store_bytes() >> 20) + "MiB", store_options);
    for (std::size_t i = 0; i < kModelCount; ++i) {
      const auto tenant = static_cast<std::uint16_t>(i + 1);
      namespaces_[i] = open_namespace(store_.get(), tenant, kModels[i].name);
      require(store_->set_quota(
                  tenant, static_cast<std::uint64_t>(
                              kModels[i].quota * static_cast<double>(store_->stats().total_bytes))),
              "quota");
    }
  }

  void run() {
    const auto start = std::chrono::steady_clock::now();
    std::uint64_t now_ms = 0;
    while (true) {
      const Request request = requests_.next();
      if (request.arrival_ms >= options_.hours * kMsPerHour) break;
      for (; request.arrival_ms >= now_ms + kMsPerMinute; expire(now_ms)) {
        now_ms += kMsPerMinute;
        wait_for(start, now_ms);
        if (now_ms % kMsPerSample == 0) sample();
      }
      if (is_kept(request)) serve(request);
    }
  }

  [[nodiscard]] double lost_percent() const {
    const ObjectStoreStats stats = store_->stats();
    return percent(stats.slab_bytes - stats.object_bytes, stats.slab_bytes);
  }
  [[nodiscard]] const Losses& losses() const { return losses_; }
  [[nodiscard]] ObjectStoreStats stats() const { return store_->stats(); }

  /// Pieces that an object is in, on average.
  [[nodiscard]] double extents_per_object() const {
    std::uint64_t objects = 0;
    std::uint64_t extents = 0;
    for (const ObjectInfo& info : store_->list(0, std::size_t{1} << 20)) {
      ++objects;
      extents += info.extents;
    }
    return static_cast<double>(extents) / static_cast<double>(std::max<std::uint64_t>(objects, 1));
  }

 private:
  static double percent(std::uint64_t part, std::uint64_t whole) {
    return whole == 0 ? 0 : 100 * static_cast<double>(part) / static_cast<double>(whole);
  }

  /// Objects keep their number when they shrink.
  [[nodiscard]] std::uint64_t store_bytes() const { return kStoreBytes * 64 / options_.scale; }

  [[nodiscard]] std::size_t largest_object() const {
    return std::size_t{163840} * kBlockTokens / options_.scale;
  }

  [[nodiscard]] std::size_t object_bytes(const Model& model, std::uint64_t block) const {
    const std::size_t bytes = model.bytes_per_token * kBlockTokens / options_.scale;
    return model.compressed ? bytes * (600 + mixed(block) % 100) / 1000 : bytes;
  }

  /// Whose conversation it is: the first block may be a prompt that all share.
  [[nodiscard]] static std::uint64_t conversation(const Request& request) {
    return mixed(request.content +
                 request.blocks[std::min<std::size_t>(1, request.blocks.size() - 1)]);
  }

  /// Whole conversations, fewer of them at night.
  [[nodiscard]] bool is_kept(const Request& request) const {
    if (request.blocks.empty()) return false;
    const double hour = static_cast<double>(request.arrival_ms) / static_cast<double>(kMsPerHour);
    const double rhythm =
        (1 + kNight - (1 - kNight) * std::cos(2 * std::numbers::pi * hour / 24)) / 2;
    constexpr std::uint64_t kFine = 1 << 20;
    const double share = rhythm / options_.thin;
    return static_cast<double>(conversation(request) % kFine) < share * kFine;
  }

  void serve(const Request& request) {
    const std::size_t model = (conversation(request) >> 24) % kModelCount;
    std::vector<BlockKey> keys;
    keys.reserve(request.blocks.size());
    for (const std::uint32_t block : request.blocks) {
      keys.push_back(key_of(request.content + block));
    }
    const std::vector<Key> chain(keys.begin(), keys.end());
    const std::size_t hits = store_->match_prefix(namespaces_[model], chain);
    store_->touch(namespaces_[model], std::span(chain).first(hits));
    std::vector<std::span<const std::byte>> sources;
    sources.reserve(keys.size());
    for (const std::uint32_t block : request.blocks) {
      sources.push_back(std::span(payload_).first(object_bytes(kModels[model], block)));
    }
    std::vector<ObjectItem> items;
    for (std::size_t i = hits; i < keys.size(); ++i) {
      items.push_back(set_item(keys[i], std::span(&sources[i], 1)));
      ages_[model].push_back({request.arrival_ms, request.content + request.blocks[i]});
    }
    if (items.empty()) return;
    Job job;
    job.kind = JobKind::kSet;
    job.namespace_number = namespaces_[model];
    job.items = items;
    job.chain = true;
    if (hits != 0) job.parent = keys[hits - 1];
    JobResult result;
    require(store_->run(job, &result), "set");
    for (const Status status : result.items) {
      // A prompt longer than its tenant's quota is nothing that a store can help.
      if (status != Status::kOk && status != Status::kQuota) require(status, "set");
    }
  }

  /// A day that takes no time leaves none for what a store does beside its callers.
  void wait_for(std::chrono::steady_clock::time_point start, std::uint64_t at_ms) const {
    if (!compacts_) return;
    const std::chrono::duration<double, std::milli> since(static_cast<double>(at_ms) /
                                                          options_.day_speed);
    std::this_thread::sleep_until(
        start + std::chrono::duration_cast<std::chrono::steady_clock::duration>(since));
  }

  /// The store's clock is the wall's; the day's is ours.
  void expire(std::uint64_t now_ms) {
    for (std::size_t model = 0; model < kModelCount; ++model) {
      std::deque<Age>& ages = ages_[model];
      std::vector<BlockKey> keys;
      while (!ages.empty() &&
             ages.front().since_ms + kModels[model].age_minutes * kMsPerMinute <= now_ms) {
        keys.push_back(key_of(ages.front().block));
        ages.pop_front();
      }
      if (keys.empty()) continue;
      std::vector<ObjectItem> items;
      items.reserve(keys.size());
      for (const BlockKey& key : keys) items.push_back(key_item(key));
      Job job;
      job.kind = JobKind::kErase;
      job.namespace_number = namespaces_[model];
      job.items = items;
      JobResult evicted_ones_are_not_found;
      require(store_->run(job, &evicted_ones_are_not_found), "erase");
    }
  }

  void sample() {
    const ObjectStoreStats stats = store_->stats();
    losses_.percent.push_back(lost_percent());
    losses_.rounding_percent.push_back(
        percent(stats.used_bytes - stats.object_bytes, stats.slab_bytes));
  }

  struct Age {
    std::uint64_t since_ms = 0;
    std::uint64_t block = 0;
  };

  const TraceOptions& options_;
  bool compacts_;
  RequestStream requests_;
  std::vector<std::byte> payload_;
  std::unique_ptr<ObjectStore> store_;
  std::array<std::uint32_t, kModelCount> namespaces_{};
  std::array<std::deque<Age>, kModelCount> ages_;
  Losses losses_;
};

}  // namespace

void measure_fragmentation(const TraceOptions& options, Rows* rows) {
  for (const bool compacts : {false, true}) {
    Day day(options, compacts);
    const double seconds = bench::seconds([&] { day.run(); });
    const std::string group = compacts ? "fragmentation/compacted/" : "fragmentation/left_alone/";
    const ObjectStoreStats stats = day.stats();
    const Losses& losses = day.losses();
    const nlohmann::json extra = {{"simulated_hours", options.hours},
                                  {"times_as_fast", options.day_speed},
                                  {"one_conversation_of", options.thin},
                                  {"object_scale", options.scale},
                                  {"pool_bytes", stats.total_bytes},
                                  {"slab_bytes_at_end", stats.slab_bytes},
                                  {"sets", stats.sets},
                                  {"set_bytes", stats.set_bytes},
                                  {"evictions", stats.evictions},
                                  {"moved", stats.moved},
                                  {"extents_per_object", day.extents_per_object()},
                                  {"samples", losses.percent.size()},
                                  {"seconds", seconds}};
    const auto add = [&](const char* name, const std::vector<double>& readings) {
      rows->add({.name = group + name, .unit = "%", .readings = readings, .extra = extra});
    };
    add("lost", losses.percent);
    add("lost_at_worst", {std::ranges::max(losses.percent)});
    add("rounding", losses.rounding_percent);
    add("at_end", {day.lost_percent()});
  }
}

}  // namespace nearkv::tier_bench
