// Objects in memory of the caller, and the jobs that move them.
#pragma once

#include <algorithm>
#include <cstddef>
#include <functional>
#include <span>
#include <vector>

#include "copy/arena.hpp"
#include "store.hpp"

namespace nearkv::tier_bench {

/// `count` objects of one size: where they come from, where they go to, and their keys.
class Objects {
 public:
  Objects(std::size_t count, std::size_t object_bytes)
      : count_(count),
        object_bytes_(object_bytes),
        sources_(count * object_bytes, 1),
        targets_(count * object_bytes, 2) {
    for (std::size_t i = 0; i < count; ++i) keys_.push_back(key_of(i));
  }

  [[nodiscard]] std::size_t count() const { return count_; }
  [[nodiscard]] std::size_t object_bytes() const { return object_bytes_; }
  [[nodiscard]] std::span<std::byte> source(std::size_t i) {
    return sources_.span().subspan(i * object_bytes_, object_bytes_);
  }
  [[nodiscard]] std::span<std::byte> target(std::size_t i) {
    return targets_.span().subspan(i * object_bytes_, object_bytes_);
  }
  [[nodiscard]] std::span<std::byte> targets() { return targets_.span(); }
  [[nodiscard]] Key key(std::size_t i) const { return keys_[i]; }

 private:
  std::size_t count_;
  std::size_t object_bytes_;
  bench::Arena sources_;
  bench::Arena targets_;
  std::vector<BlockKey> keys_;
};

/// Calls run(job) for jobs of up to `batch` objects, until all of `order` have been moved. A get
/// of object order[i] goes to the target whose turn is last but i, as copies of the peers do.
template <typename Run>
void for_each_job(Objects* objects, JobKind kind, std::uint32_t namespace_number,
                  std::span<const std::size_t> order, std::size_t batch, Run run) {
  std::vector<ObjectItem> items(batch);
  std::vector<std::span<const std::byte>> sources(batch);
  std::vector<std::span<std::byte>> targets(batch);
  for (std::size_t first = 0; first < order.size(); first += batch) {
    const std::size_t count = std::min(batch, order.size() - first);
    for (std::size_t i = 0; i < count; ++i) {
      const std::size_t object = order[first + i];
      items[i] = key_item(objects->key(object));
      if (kind == JobKind::kSet) {
        sources[i] = objects->source(object);
        items[i].source = std::span(&sources[i], 1);
      } else if (kind == JobKind::kGet) {
        targets[i] = objects->target(order[order.size() - 1 - first - i]);
        items[i].target = std::span(&targets[i], 1);
      }
    }
    Job job;
    job.kind = kind;
    job.namespace_number = namespace_number;
    job.items = std::span(items).first(count);
    run(job);
  }
}

/// Throws std::runtime_error if a target does not hold what for_each_job's gets should have put
/// there.
void verify_targets(Objects* objects, std::span<const std::size_t> order);

}  // namespace nearkv::tier_bench
