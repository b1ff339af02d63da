// The extent allocator: adopting objects at a restart; allocating and freeing in a full tier.
#include <random>

#include "object/extent_allocator.hpp"
#include "report.hpp"

namespace nearkv::bench {
namespace {

constexpr std::uint32_t kSlabGrains = 512;

class AllSlabs : public SlabSource {
 public:
  explicit AllSlabs(std::uint32_t slabs) {
    while (slabs-- > 0) free_.push_back(slabs);
  }
  std::optional<std::uint32_t> take_slab() override {
    if (free_.empty()) return std::nullopt;
    const std::uint32_t slab = free_.back();
    free_.pop_back();
    return slab;
  }
  void return_slab(std::uint32_t slab) override { free_.push_back(slab); }

 private:
  std::vector<std::uint32_t> free_;
};

}  // namespace

void bench_extents(const Options& options, Report* report) {
  constexpr std::uint32_t kMostGrains = 256;
  const std::size_t objects = options.keys / 10;
  const auto slabs = static_cast<std::uint32_t>(objects * kMostGrains / 2 / kSlabGrains + 1);
  const ExtentAllocator::Geometry geometry{0, kSlabGrains, slabs};
  std::mt19937_64 random(options.seed);
  AllSlabs source(slabs);
  ExtentAllocator allocator(geometry, &source);
  std::vector<std::vector<Extent>> extents;
  const double filling = cpu_seconds([&] {
    const std::uint64_t most = std::uint64_t{slabs} * kSlabGrains * 9 / 10;
    while (allocator.usage().used_grains < most) {
      if (!allocator.allocate(1 + random() % kMostGrains, &extents.emplace_back())) break;
    }
  });
  std::shuffle(extents.begin(), extents.end(), random);
  // As the records of objects have them.
  std::vector<Extent> table;
  std::vector<std::size_t> ends;
  ends.reserve(extents.size());
  for (const std::vector<Extent>& object : extents) {
    table.insert(table.end(), object.begin(), object.end());
    ends.push_back(table.size());
  }
  AllSlabs none(0);
  ExtentAllocator restarted(geometry, &none);
  const double adopting = cpu_seconds([&] {
    for (std::uint32_t slab = 0; slab < slabs; ++slab) keep(restarted.adopt_slab(slab));
    std::size_t begin = 0;
    for (const std::size_t end : ends) {
      keep(restarted.adopt(std::span(table).subspan(begin, end - begin)));
      begin = end;
    }
    restarted.finish_adoption();
  });
  Latencies pairs;
  for (std::size_t i = 0; i < 200'000; ++i) {
    std::vector<Extent>& object = extents[random() % extents.size()];
    const auto grains = static_cast<std::uint32_t>(1 + random() % kMostGrains);
    pairs.time([&] {
      keep(allocator.release(object));
      if (!allocator.allocate(grains, &object)) object.clear();
    });
  }
  const auto count = static_cast<double>(extents.size());
  const ExtentAllocator::Usage usage = allocator.usage();
  report->add({"index/extents/objects", "", count, "", 0});
  report->add({"index/extents/adopt", "/s", count / adopting, "allocate", count / filling});
  report->add({"index/extents/release_allocate_p50", "ns", pairs.percentile(50), "", 0});
  report->add({"index/extents/release_allocate_p99", "ns", pairs.percentile(99), "", 0});
  report->add(
      {"index/extents/wasted", "%",
       100 - 100 * static_cast<double>(usage.used_grains) / static_cast<double>(usage.owned_grains),
       "", 0});
}

}  // namespace nearkv::bench
