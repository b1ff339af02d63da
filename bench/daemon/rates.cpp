// Rates of large objects.
#include <cstring>

#include "cases.hpp"

namespace nearkv::bench {
namespace {

/// Transfers of all objects of one size, `batch` in a job, through a ring of places in memory.
void transfer_all(Contestant* contestant, JobKind kind,
                  const std::vector<std::vector<std::byte>>& keys, std::size_t bytes,
                  std::size_t batch) {
  const std::size_t places = contestant->memory.size() / bytes;
  std::vector<std::span<std::byte>> targets(batch);
  std::vector<std::span<const std::byte>> sources(batch);
  std::vector<ObjectItem> items(batch);
  for (std::size_t first = 0; first + batch <= keys.size(); first += batch) {
    for (std::size_t i = 0; i < batch; ++i) {
      targets[i] = contestant->memory.subspan((first + i) % places * bytes, bytes);
      sources[i] = targets[i];
      items[i].key = keys[first + i];
      items[i].source = std::span(&sources[i], 1);
      items[i].target = std::span(&targets[i], 1);
    }
    Job job;
    job.kind = kind;
    job.namespace_number = contestant->space;
    job.items = items;
    job.overwrite = kind == JobKind::kSet;
    run(contestant, job);
  }
}

}  // namespace

void compare_rates(const Options& options, const std::string& name,
                   const std::vector<NamedContestant>& contestants, Report* report) {
  // What memcpy moves: between memory as large as the objects' and as the window.
  std::vector<std::byte> arena(options.working_set_bytes, std::byte{2});
  std::vector<std::byte> window(options.window_bytes, std::byte{3});
  for (const std::size_t kib : {256UL, 1024UL, 2048UL}) {
    const std::size_t bytes = kib << 10;
    const std::size_t objects = options.working_set_bytes / bytes;
    std::vector<std::vector<std::byte>> keys;
    keys.reserve(objects);
    for (std::size_t i = 0; i < objects; ++i) keys.push_back(key_of(bytes + i));
    for (const JobKind kind : {JobKind::kSet, JobKind::kGet}) {
      const auto copy = [&] {
        for (std::size_t i = 0; i < objects; ++i) {
          std::byte* const object = arena.data() + i * bytes;
          std::byte* const place = window.data() + i % (window.size() / bytes) * bytes;
          if (kind == JobKind::kSet) {
            std::memcpy(object, place, bytes);
          } else {
            std::memcpy(place, object, bytes);
          }
        }
      };
      std::vector<Contender> contenders = {{"memcpy", copy}};
      for (const std::size_t batch : {1UL, 8UL}) {
        const std::string suffix = ", " + std::to_string(batch) + " a job";
        for (const NamedContestant& each : contestants) {
          contenders.push_back({each.name + suffix, [&, batch] {
                                  transfer_all(each.contestant, kind, keys, bytes, batch);
                                }});
        }
      }
      Comparison comparison;
      comparison.name =
          name + (kind == JobKind::kSet ? "/set/" : "/get/") + std::to_string(kib) + "KiB";
      comparison.bytes = objects * bytes;
      comparison.extra = {{"object_bytes", bytes},
                          {"working_set_bytes", options.working_set_bytes}};
      report->compare(comparison, contenders);
    }
    for (const auto& key : keys) {
      ObjectItem item;
      item.key = key;
      Job job;
      job.kind = JobKind::kErase;
      job.items = std::span(&item, 1);
      for (const NamedContestant& each : contestants) {
        job.namespace_number = each.contestant->space;
        run(each.contestant, job);
      }
    }
  }
}

}  // namespace nearkv::bench
