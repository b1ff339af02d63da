#include <stdexcept>

#include "arena.hpp"
#include "cases.hpp"
#include "media/sealed_streams.hpp"
#include "media/wipe.hpp"

namespace nearkv::bench {
namespace {

void check(Status status) {
  if (status != Status::kOk) throw std::runtime_error(std::string(message(status)));
}

std::unique_ptr<Sealer> make_sealer() {
  std::array<std::byte, SecretKey::kBytes> bytes{};
  bytes[0] = std::byte{1};
  SecretKey key;
  check(SecretKey::copy_of(bytes, &key));
  std::unique_ptr<Sealer> sealer;
  check(Sealer::create(key, &sealer));
  return sealer;
}

}  // namespace

void compare_seals(const Options& options, Report* report) {
  const std::size_t set_bytes = options.working_set_bytes;
  Arena host(set_bytes, 1);
  Arena pool(set_bytes, 2);
  const auto sealer = make_sealer();
  for (const std::size_t object_bytes : options.object_bytes) {
    const std::size_t objects = set_bytes / object_bytes;
    const auto order = shuffled(objects, 1);
    std::vector<nkv_object_seal> seals(objects);
    const auto at = [object_bytes](Arena& arena, std::size_t object) {
      return arena.span().subspan(object * object_bytes, object_bytes);
    };
    std::uint32_t crc = 0;
    const std::vector<Contender> contenders = {
        {"copy_in with checksum",
         [&] {
           for (const std::size_t object : order) {
             crc += copy_in(at(pool, object), at(host, object), 0);
             copy_fence();
           }
         }},
        {"seal",
         [&] {
           for (const std::size_t object : order) {
             const std::span<const std::byte> segments[] = {at(host, object)};
             SourceCursor from(segments);
             SealingSource source(sealer.get(), &from, {}, object_bytes, &seals[object]);
             crc += source.give(at(pool, object), 0);
             copy_fence();
             check(source.status());
           }
         }},
        {"open",  // what the contender before has sealed
         [&] {
           for (const std::size_t object : order) {
             const std::span<std::byte> segments[] = {at(host, object)};
             TargetCursor to(segments);
             OpeningSink sink(sealer.get(), &to, {}, seals[object]);
             crc += sink.take(at(pool, object), 0);
             check(sink.finish());
           }
         }},
        {"wipe",
         [&] {
           for (const std::size_t object : order) wipe(at(pool, object));
         }},
    };
    report->compare({.name = "seal/" + std::to_string(object_bytes >> 10) + "KiB",
                     .bytes = objects * object_bytes,
                     .extra = {{"object_bytes", object_bytes},
                               {"threads", 1},
                               {"working_set_bytes", set_bytes}}},
                    contenders);
  }
}

}  // namespace nearkv::bench
