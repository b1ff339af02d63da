// set and get of objects past the caches, beside memcpy.
#include <cstring>
#include <stdexcept>
#include <thread>

#include "batches.hpp"
#include "cases.hpp"
#include "index/report.hpp"
#include "media/checked_copy.hpp"

namespace nearkv::tier_bench {
namespace {

constexpr std::chrono::minutes kPatience{1};

struct Contender {
  std::string name;
  std::function<void(std::span<const std::size_t> order)> run;
  bool of_store = true;
};

class CopyBench {
 public:
  CopyBench(std::size_t object_bytes, const CopyOptions& options, Rows* rows)
      : options_(options),
        rows_(*rows),
        objects_(options.working_set_bytes / object_bytes, object_bytes),
        store_(create_store_for("", objects_.count(), object_bytes)),
        namespace_number_(open_namespace(store_.get(), 1, "copies")) {}

  void run() {
    compare("set", JobKind::kSet);
    compare("get", JobKind::kGet);
  }

 private:
  void compare(const std::string& name, JobKind kind) {
    const std::vector<Contender> contenders = {
        {"memcpy", [this](auto order) { copy(order); }, false},
        {"run", [this, kind](auto order) { run_jobs(kind, order, 1); }},
        {"run_batch", [this, kind](auto order) { run_jobs(kind, order, options_.batch); }},
        {"submit_batch", [this, kind](auto order) { submit_jobs(kind, order); }},
        {"memcpy on 2 threads", [this](auto order) { copy_on_two_threads(order); }, false},
        {"checked_copy", [this, kind](auto order) { checked_copy(kind, order); }, false},
    };
    std::vector<std::vector<double>> rates(contenders.size());
    const double gigabytes = static_cast<double>(objects_.count() * objects_.object_bytes()) / 1e9;
    for (unsigned round = 0; round <= options_.rounds; ++round) {
      const auto order = bench::shuffled(objects_.count(), round);
      for (std::size_t i = 0; i < contenders.size(); ++i) {
        if (kind == JobKind::kSet && contenders[i].of_store) clear();
        const double seconds = bench::seconds([&] { contenders[i].run(order); });
        if (round == 0) {
          check(kind, order);  // and everything is warm
        } else {
          rates[i].push_back(gigabytes / seconds);
        }
      }
    }
    const std::string group = "copies/" + name + "/" + size_text(objects_.object_bytes()) + "/";
    const auto add = [&](const std::string& row, std::size_t own, std::size_t peer) {
      rows_.add({.name = group + row,
                 .unit = "GB/s",
                 .readings = rates[own],
                 .peer = contenders[peer].name,
                 .peer_readings = rates[peer],
                 .extra = {{"object_bytes", objects_.object_bytes()},
                           {"objects", objects_.count()},
                           {"objects_in_a_job", own == 1 ? 1 : options_.batch},
                           {"threads", own == 3 ? 2 : 1}}});
    };
    add("run", 1, 0);
    add("run_batch", 2, 0);
    add("submit_batch", 3, 4);  // A worker of the store and the thread that waits share a job.
    add("checked_copy", 5, 0);
    // What the store costs beyond its copy.
    add("run_of_copy", 1, contenders.size() - 1);
  }

  void copy(std::span<const std::size_t> order) { copy_range(order, 0, order.size()); }

  void copy_range(std::span<const std::size_t> order, std::size_t first, std::size_t end) {
    for (std::size_t i = first; i < end; ++i) {
      std::memcpy(objects_.target(order[order.size() - 1 - i]).data(),
                  objects_.source(order[i]).data(), objects_.object_bytes());
    }
  }

  void copy_on_two_threads(std::span<const std::size_t> order) {
    const std::size_t half = order.size() / 2;
    const std::jthread other([&] { copy_range(order, half, order.size()); });
    copy_range(order, 0, half);
  }

  void run_jobs(JobKind kind, std::span<const std::size_t> order, std::size_t batch) {
    for_each_job(&objects_, kind, namespace_number_, order, batch,
                 [&](const Job& job) { run_all_ok(store_.get(), job, "run"); });
  }

  void submit_jobs(JobKind kind, std::span<const std::size_t> order) {
    for_each_job(&objects_, kind, namespace_number_, order, options_.batch, [&](const Job& job) {
      JobId id = 0;
      JobResult result;
      require(store_->submit(job, &id), "submit");
      require(store_->wait(id, kPatience, &result), "wait");
      if (!result.all_ok()) throw std::runtime_error("an object of a job failed");
    });
  }

  void clear() {
    const auto order = bench::shuffled(objects_.count(), 0);
    for_each_job(&objects_, JobKind::kErase, namespace_number_, order, options_.batch,
                 [&](const Job& job) {
                   JobResult ignored;  // The first time there is nothing to erase.
                   require(store_->run(job, &ignored), "erase");
                 });
  }

  /// Copies as the store does, and nothing else.
  void checked_copy(JobKind kind, std::span<const std::size_t> order) {
    std::uint32_t crc = 0;
    for (std::size_t i = 0; i < order.size(); ++i) {
      const auto from = objects_.source(order[i]);
      const auto to = objects_.target(order[order.size() - 1 - i]);
      crc ^= kind == JobKind::kSet ? copy_in(to, from, 0) : copy_out(to, from, 0);
      copy_fence();
    }
    bench::keep(crc);
  }

  void check(JobKind kind, std::span<const std::size_t> order) {
    if (kind == JobKind::kGet) verify_targets(&objects_, order);
    std::ranges::fill(objects_.targets(), std::byte{0});
  }

  const CopyOptions& options_;
  Rows& rows_;
  Objects objects_;
  std::unique_ptr<ObjectStore> store_;
  std::uint32_t namespace_number_;
};

}  // namespace

void verify_targets(Objects* objects, std::span<const std::size_t> order) {
  for (std::size_t i = 0; i < order.size(); ++i) {
    if (!std::ranges::equal(objects->target(order[order.size() - 1 - i]),
                            objects->source(order[i]))) {
      throw std::runtime_error("a get returned other bytes than were set");
    }
  }
}

void compare_copies(const CopyOptions& options, Rows* rows) {
  for (const std::size_t object_bytes : options.object_bytes) {
    CopyBench(object_bytes, options, rows).run();
  }
}

}  // namespace nearkv::tier_bench
