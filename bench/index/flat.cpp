// The flat index: single finds, batches, threads, latencies, memory, loading.
#include <sys/mman.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <new>
#include <random>
#include <thread>
#include <unordered_map>

#include "object/fingerprint.hpp"
#include "object/flat_index.hpp"
#include "report.hpp"

namespace nearkv::bench {
namespace {

constexpr std::size_t kFinds = 1'000'000;  ///< Of one repetition.
constexpr std::size_t kBatch = 256;

/// As large as what the tier keeps of an object, with a key as long as engines' hashes.
struct alignas(64) Record {
  std::array<std::byte, 32> key;
};

Record record_of(std::uint64_t number) {
  Record record{};
  std::memcpy(record.key.data(), &number, sizeof(number));
  return record;
}

/// Records in huge pages, as a pool has them.
class Records {
 public:
  explicit Records(std::size_t count) : records_(nullptr, &std::free) {
    constexpr std::size_t kHugePageBytes = std::size_t{2} << 20;
    const std::size_t bytes =
        (count * sizeof(Record) + kHugePageBytes - 1) / kHugePageBytes * kHugePageBytes;
    void* const memory = std::aligned_alloc(kHugePageBytes, bytes);
    if (memory == nullptr) throw std::bad_alloc();
    ::madvise(memory, bytes, MADV_HUGEPAGE);
    records_.reset(static_cast<Record*>(memory));
    for (std::uint64_t i = 0; i < count; ++i) records_.get()[i] = record_of(i);
  }
  [[nodiscard]] const Record& operator[](std::size_t record) const {
    return records_.get()[record];
  }

 private:
  std::unique_ptr<Record, decltype(&std::free)> records_;
};

/// What everyone would write first.
class MutexMap {
 public:
  template <typename Match>
  std::optional<std::uint32_t> find(std::uint64_t fingerprint, Match match) {
    const std::lock_guard lock(mutex_);
    const auto found = map_.find(fingerprint);
    if (found == map_.end() || !match(found->second)) return std::nullopt;
    return found->second;
  }
  void insert(std::uint64_t fingerprint, std::uint32_t record) {
    const std::lock_guard lock(mutex_);
    map_.emplace(fingerprint, record);
  }

 private:
  std::mutex mutex_;
  std::unordered_map<std::uint64_t, std::uint32_t> map_;
};

class FlatBench {
 public:
  FlatBench(const Options& options, Report* report)
      : options_(options), report_(*report), records_(options.keys) {
    entries_.reserve(options.keys);
    for (std::uint64_t i = 0; i < options.keys; ++i) {
      entries_.push_back({fingerprint(1, 1, records_[i].key), static_cast<std::uint32_t>(i)});
    }
  }

  void run() {
    fill();
    rates();
    latencies();
  }

 private:
  static constexpr const char* kPeer = "unordered_map, mutex";

  struct Lookup {
    std::uint64_t fingerprint;
    Record wanted;
  };

  /// Keys drawn at random, all there or all not.
  [[nodiscard]] std::vector<Lookup> lookups(std::uint64_t seed, bool there) const {
    std::vector<Lookup> lookups;
    std::mt19937_64 random(seed);
    for (std::size_t i = 0; i < kFinds; ++i) {
      const Record wanted = record_of(random() % options_.keys + (there ? 0 : options_.keys));
      lookups.push_back({fingerprint(1, 1, wanted.key), wanted});
    }
    return lookups;
  }

  [[nodiscard]] auto matching(const Record& wanted) const {
    return [this, &wanted](std::uint32_t record) { return records_[record].key == wanted.key; };
  }

  void fill() {
    const double keys = static_cast<double>(options_.keys);
    std::size_t before = heap_bytes();
    const double ours = cpu_seconds([&] { index_.load(entries_); });
    const double our_bytes = static_cast<double>(heap_bytes() - before);
    FlatIndex grown;
    const double inserting = cpu_seconds([&] {
      for (const FlatIndex::Entry& entry : entries_) {
        keep(grown.insert(entry.fingerprint, entry.record, [](std::uint32_t) { return false; }));
      }
    });
    before = heap_bytes();
    const double peers = cpu_seconds([&] {
      for (const FlatIndex::Entry& entry : entries_) peer_.insert(entry.fingerprint, entry.record);
    });
    const double peer_bytes = static_cast<double>(heap_bytes() - before);
    report_.add({"index/flat/load", "keys/s", keys / ours, kPeer, keys / peers});
    report_.add({"index/flat/insert", "keys/s", keys / inserting, kPeer, keys / peers});
    report_.add({"index/flat/memory", "B/key", our_bytes / keys, kPeer, peer_bytes / keys});
    report_.add({"index/flat/memory_grown", "B/key",
                 static_cast<double>(grown.memory_bytes()) / keys, kPeer, peer_bytes / keys});
  }

  template <typename Index>
  [[nodiscard]] double find_rate(Index& index, std::uint64_t seed, bool there, unsigned threads) {
    std::vector<std::vector<Lookup>> work;
    work.reserve(threads);
    for (unsigned i = 0; i < threads; ++i) work.push_back(lookups(seed + i, there));
    const auto find_all = [&](const std::vector<Lookup>& mine) {
      for (const Lookup& lookup : mine) {
        keep(index.find(lookup.fingerprint, matching(lookup.wanted)));
      }
    };
    if (threads == 1) return kFinds / cpu_seconds([&] { find_all(work[0]); });
    const double took = seconds([&] {
      std::vector<std::thread> others;
      for (unsigned i = 1; i < threads; ++i) others.emplace_back(find_all, std::cref(work[i]));
      find_all(work[0]);
      for (std::thread& other : others) other.join();
    });
    return static_cast<double>(threads * kFinds) / took;
  }

  [[nodiscard]] double batch_rate(std::uint64_t seed) {
    const std::vector<Lookup> work = lookups(seed, true);
    std::array<std::uint64_t, kBatch> fingerprints{};
    std::array<std::uint32_t, kBatch> found{};
    const std::size_t done = work.size() / kBatch * kBatch;
    const double took = cpu_seconds([&] {
      for (std::size_t begin = 0; begin < done; begin += kBatch) {
        for (std::size_t i = 0; i < kBatch; ++i) fingerprints[i] = work[begin + i].fingerprint;
        index_.find_batch(
            fingerprints, [&](std::uint32_t record) { __builtin_prefetch(&records_[record]); },
            [&](std::size_t i, std::uint32_t record) {
              return records_[record].key == work[begin + i].wanted.key;
            },
            found);
        keep(found[0]);
      }
    });
    return static_cast<double>(done) / took;
  }

  void rates() {
    std::vector<double> hit;
    std::vector<double> miss;
    std::vector<double> batch;
    std::vector<double> threads;
    std::vector<double> peer_hit;
    std::vector<double> peer_miss;
    std::vector<double> peer_threads;
    for (std::uint64_t i = 0; i < options_.repeats; ++i) {
      const std::uint64_t seed = options_.seed + 100 * i;
      hit.push_back(find_rate(index_, seed, true, 1));
      peer_hit.push_back(find_rate(peer_, seed, true, 1));
      batch.push_back(batch_rate(seed));
      miss.push_back(find_rate(index_, seed, false, 1));
      peer_miss.push_back(find_rate(peer_, seed, false, 1));
      threads.push_back(find_rate(index_, seed, true, options_.threads));
      peer_threads.push_back(find_rate(peer_, seed, true, options_.threads));
    }
    report_.add({"index/flat/find", "keys/s", median(hit), kPeer, median(peer_hit)});
    report_.add({"index/flat/find_absent", "keys/s", median(miss), kPeer, median(peer_miss)});
    report_.add({"index/flat/find_batch", "keys/s", median(batch), kPeer, median(peer_hit)});
    report_.add({"index/flat/find_" + std::to_string(options_.threads) + "_threads", "keys/s",
                 median(threads), kPeer, median(peer_threads)});
  }

  void latencies() {
    Latencies ours;
    Latencies peers;
    for (const Lookup& lookup : lookups(7, true)) {
      ours.time([&] { keep(index_.find(lookup.fingerprint, matching(lookup.wanted))); });
    }
    for (const Lookup& lookup : lookups(8, true)) {
      peers.time([&] { keep(peer_.find(lookup.fingerprint, matching(lookup.wanted))); });
    }
    const auto report = [&](const char* name, double percent) {
      report_.add({std::string("index/flat/find_") + name, "ns", ours.percentile(percent), kPeer,
                   peers.percentile(percent)});
    };
    report("p50", 50);
    report("p99", 99);
    report("p99.9", 99.9);
  }

  const Options& options_;
  Report& report_;
  Records records_;
  std::vector<FlatIndex::Entry> entries_;
  FlatIndex index_;
  MutexMap peer_;
};

}  // namespace

void bench_flat(const Options& options, Report* report) { FlatBench(options, report).run(); }

}  // namespace nearkv::bench
