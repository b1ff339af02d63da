// The prefix tree: longest matches over chains as requests have them, beside as many flat finds.
#include <array>
#include <random>
#include <thread>
#include <unordered_set>

#include "chains.hpp"
#include "object/flat_index.hpp"
#include "object/prefix_tree.hpp"
#include "report.hpp"

namespace nearkv::bench {
namespace {

class PrefixBench {
 public:
  PrefixBench(std::string name, std::vector<Chain> chains, const Options& options, Report* report)
      : name_("index/prefix/" + std::move(name)),
        chains_(std::move(chains)),
        options_(options),
        report_(*report) {
    std::unordered_set<std::uint64_t> seen;
    for (const Chain& chain : chains_) {
      longest_ = std::max(longest_, chain.size());
      for (std::size_t i = 0; i < chain.size(); ++i) {
        if (!seen.insert(chain[i]).second) continue;
        const auto record = static_cast<std::uint32_t>(blocks_.size());
        blocks_.push_back({chain[i], i == 0 ? std::nullopt : std::optional(chain[i - 1]), record});
        entries_.push_back({chain[i], record});
      }
    }
  }

  void run() {
    flat_.load(entries_);
    const auto blocks = static_cast<double>(blocks_.size());
    const double loading = cpu_seconds([&] { keep(tree_.load(blocks_)); });
    PrefixTree grown;
    const double inserting = cpu_seconds([&] {
      for (const PrefixTree::Block& block : blocks_) keep(grown.insert(block));
    });
    report_.add({name_ + "/blocks", "", blocks, "", 0});
    report_.add({name_ + "/load", "blocks/s", blocks / loading, "insert", blocks / inserting});
    report_.add({name_ + "/memory", "B/block",
                 static_cast<double>(tree_.usage().memory_bytes) / blocks, "grown by insert",
                 static_cast<double>(grown.usage().memory_bytes) / blocks});
    report_.add(
        {name_ + "/run_length", "blocks", blocks / static_cast<double>(tree_.usage().runs), "", 0});
    latencies();
    threads();
  }

 private:
  [[nodiscard]] std::size_t match_flat(const Chain& chain) const {
    std::size_t matched = 0;
    while (matched < chain.size() &&
           flat_.find(chain[matched], [](std::uint32_t) { return true; })) {
      ++matched;
    }
    return matched;
  }

  [[nodiscard]] std::size_t match_batch(const Chain& chain,
                                        std::span<std::uint32_t> records) const {
    flat_.find_batch(
        chain, [](std::uint32_t) {}, [](std::size_t, std::uint32_t) { return true; }, records);
    return static_cast<std::size_t>(
        std::ranges::find(records.first(chain.size()), FlatIndex::kNoRecord) - records.begin());
  }

  void latencies() {
    constexpr std::size_t kMatches = 20'000;
    std::mt19937_64 random(options_.seed);
    std::vector<std::uint32_t> records(longest_);
    Latencies tree;
    Latencies flat;
    Latencies batch;
    for (std::size_t i = 0; i < kMatches; ++i) {
      const Chain& first = chains_[random() % chains_.size()];
      tree.time([&] { keep(tree_.longest_match(first, records)); });
      const Chain& second = chains_[random() % chains_.size()];
      flat.time([&] { keep(match_flat(second)); });
      const Chain& third = chains_[random() % chains_.size()];
      batch.time([&] { keep(match_batch(third, records)); });
    }
    for (const int percent : {50, 99}) {
      const std::string name = name_ + "/longest_match_p" + std::to_string(percent);
      report_.add({name, "ns", tree.percentile(percent), "flat finds", flat.percentile(percent)});
      report_.add(
          {name, "ns", tree.percentile(percent), "batched flat finds", batch.percentile(percent)});
    }
  }

  [[nodiscard]] double rate(unsigned threads) const {
    constexpr std::size_t kMatches = 50'000;
    const auto match_many = [&](std::uint64_t seed) {
      std::mt19937_64 random(seed);
      std::vector<std::uint32_t> records(longest_);
      for (std::size_t i = 0; i < kMatches; ++i) {
        keep(tree_.longest_match(chains_[random() % chains_.size()], records));
      }
    };
    const double took = seconds([&] {
      std::vector<std::thread> others;
      for (unsigned i = 1; i < threads; ++i) others.emplace_back(match_many, i);
      match_many(0);
      for (std::thread& other : others) other.join();
    });
    return threads * kMatches / took;
  }

  void threads() {
    std::vector<double> one;
    std::vector<double> several;
    for (unsigned i = 0; i < options_.repeats; ++i) {
      one.push_back(rate(1));
      several.push_back(rate(options_.threads));
    }
    report_.add({name_ + "/matches_" + std::to_string(options_.threads) + "_threads", "/s",
                 median(several), "one thread", median(one)});
  }

  std::string name_;
  std::vector<Chain> chains_;
  const Options& options_;
  Report& report_;
  std::size_t longest_ = 0;
  std::vector<PrefixTree::Block> blocks_;
  std::vector<FlatIndex::Entry> entries_;
  PrefixTree tree_;
  FlatIndex flat_;
};

}  // namespace

void bench_prefix(const Options& options, Report* report) {
  PrefixBench("50_to_250_blocks", made_up_chains(options.keys, 50, 250, options.seed), options,
              report)
      .run();
  PrefixBench("2000_blocks", made_up_chains(options.keys, 2000, 2000, options.seed), options,
              report)
      .run();
  if (options.trace.empty()) return;
  PrefixBench("trace", trace_chains(options.trace, options.keys), options, report).run();
}

}  // namespace nearkv::bench
