// One of those that take turns in bench/peers: the store, and memcpy, on orders from outside.
#include <cstdio>
#include <cstring>
#include <iostream>
#include <stdexcept>

#include "batches.hpp"
#include "cases.hpp"
#include "index/report.hpp"

namespace nearkv::tier_bench {
namespace {

class Turns {
 public:
  explicit Turns(const TurnOptions& options)
      : batch_(options.batch),
        objects_(options.objects, options.object_bytes),
        store_(create_store_for(options.path, options.objects, options.object_bytes)),
        namespace_number_(open_namespace(store_.get(), 1, "turns")) {}

  /// The reply to a line.
  nlohmann::json take(const std::string& line) {
    if (line == "clear") return done(0, [&] { move(JobKind::kErase, line); });
    const auto bytes = objects_.count() * objects_.object_bytes();
    if (line == "set") return done(bytes, [&] { move(JobKind::kSet, line); });
    if (line == "get") return done(bytes, [&] { move(JobKind::kGet, line); });
    if (line == "memcpy") return done(bytes, [&] { copy(); });
    if (line == "exists") return done(0, [&] { exists(); });
    if (line == "verify") {
      return done(0, [&] {
        verify_targets(&objects_, order());
        std::ranges::fill(objects_.targets(), std::byte{0});
      });
    }
    return {{"error", "no such order: " + line}};
  }

 private:
  template <typename Work>
  nlohmann::json done(std::size_t bytes, Work work) {
    return {{"seconds", bench::seconds(work)}, {"bytes", bytes}, {"objects", objects_.count()}};
  }

  [[nodiscard]] std::vector<std::size_t> order() const {
    return bench::shuffled(objects_.count(), 1);
  }

  void move(JobKind kind, const std::string& what) {
    for_each_job(&objects_, kind, namespace_number_, order(), batch_, [&](const Job& job) {
      JobResult result;
      require(store_->run(job, &result), what);
      if (kind != JobKind::kErase && !result.all_ok()) throw std::runtime_error(what + " failed");
    });
  }

  void copy() {
    const auto order = this->order();
    for (std::size_t i = 0; i < order.size(); ++i) {
      std::memcpy(objects_.target(order[order.size() - 1 - i]).data(),
                  objects_.source(order[i]).data(), objects_.object_bytes());
    }
  }

  void exists() {
    std::vector<Key> keys;
    for (const std::size_t i : order()) keys.push_back(objects_.key(i));
    for (std::size_t first = 0; first < keys.size(); first += batch_) {
      const std::size_t count = std::min(batch_, keys.size() - first);
      if (store_->exists(namespace_number_, std::span(keys).subspan(first, count)) != count) {
        throw std::runtime_error("exists missed an object");
      }
    }
  }

  std::size_t batch_;
  Objects objects_;
  std::unique_ptr<ObjectStore> store_;
  std::uint32_t namespace_number_;
};

}  // namespace

void take_turns(const TurnOptions& options) {
  Turns turns(options);
  std::cout << nlohmann::json{{"ready", true}}.dump() << '\n' << std::flush;
  for (std::string line; std::getline(std::cin, line);) {
    std::cout << turns.take(line).dump() << '\n' << std::flush;
  }
}

}  // namespace nearkv::tier_bench
