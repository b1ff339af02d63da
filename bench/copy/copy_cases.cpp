#include <atomic>
#include <cstring>

#include "arena.hpp"
#include "cases.hpp"
#include "media/checked_copy.hpp"
#include "media/guarded.hpp"
#include "page/checksum.hpp"

namespace nearkv::bench {
namespace {

using Copy = std::uint32_t (*)(std::span<std::byte>, std::span<const std::byte>);

struct Way {
  const char* name;
  Copy copy;
};

constexpr Way kWays[] = {
    {"memcpy",
     [](std::span<std::byte> to, std::span<const std::byte> from) {
       std::memcpy(to.data(), from.data(), from.size());
       return std::uint32_t{0};
     }},
    {"memcpy, then crc32c",
     [](std::span<std::byte> to, std::span<const std::byte> from) {
       std::memcpy(to.data(), from.data(), from.size());
       return crc32c(to.first(from.size()));
     }},
    {"copy_in with checksum",
     [](std::span<std::byte> to, std::span<const std::byte> from) {
       const std::uint32_t crc = copy_in(to, from, 0);
       copy_fence();
       return crc;
     }},
    {"copy_in with checksum, guarded",
     [](std::span<std::byte> to, std::span<const std::byte> from) {
       std::uint32_t crc = 0;
       std::uintptr_t fault = 0;
       const Status status = guarded(to, [&] { crc = copy_in(to, from, 0); }, &fault);
       copy_fence();
       return status == Status::kOk ? crc : 0;
     }},
    {"copy_in",
     [](std::span<std::byte> to, std::span<const std::byte> from) {
       copy_in(to, from);
       copy_fence();
       return std::uint32_t{0};
     }},
    {"copy_out with checksum",
     [](std::span<std::byte> to, std::span<const std::byte> from) {
       return copy_out(to, from, 0);
     }},
    {"copy_out",
     [](std::span<std::byte> to, std::span<const std::byte> from) {
       copy_out(to, from);
       return std::uint32_t{0};
     }},
};

constexpr std::size_t kMisaligned = 40;  // malloc's 16 and a header of the caller's

std::string size_name(std::size_t bytes) {
  return bytes >= 1 << 20 ? std::to_string(bytes >> 20) + "MiB"
                          : std::to_string(bytes >> 10) + "KiB";
}

}  // namespace

void compare_copies(const Options& options, Report* report) {
  const std::size_t largest =
      *std::max_element(options.object_bytes.begin(), options.object_bytes.end());
  Arena source(options.working_set_bytes + largest, 1);
  Arena target(options.working_set_bytes + largest, 2);
  const SigbusHandler handler;
  std::atomic<std::uint32_t> sums{0};  // so that no sum is dropped
  for (const unsigned threads : options.threads) {
    for (const std::size_t misaligned : {std::size_t{0}, kMisaligned}) {
      for (const std::size_t object_bytes : options.object_bytes) {
        const std::size_t objects = options.working_set_bytes / object_bytes / threads;
        if (objects == 0) continue;
        std::vector<Contender> contenders;
        for (const Way& way : kWays) {
          // The host's buffer is what may lie anywhere; the pool's slots are aligned.
          const bool out = std::strncmp(way.name, "copy_out", 8) == 0;
          const std::size_t from_offset = out ? 0 : misaligned;
          const std::size_t to_offset = out ? misaligned : 0;
          contenders.push_back(
              {way.name, [=, &source, &target, &sums] {
                 on_threads(threads, [&](unsigned thread) {
                   const auto order = shuffled(objects, thread);
                   std::uint32_t sum = 0;
                   for (std::size_t i = 0; i < objects; ++i) {
                     const std::size_t base = thread * objects;
                     sum +=
                         way.copy(target.span().subspan(
                                      (base + order[i]) * object_bytes + to_offset, object_bytes),
                                  source.span().subspan(
                                      (base + order[objects - 1 - i]) * object_bytes + from_offset,
                                      object_bytes));
                   }
                   sums += sum;
                 });
               }});
        }
        report->compare({.name = "copy/" + size_name(object_bytes) + "/" + std::to_string(threads) +
                                 "_threads/" + (misaligned == 0 ? "aligned" : "host_misaligned"),
                         .bytes = objects * threads * object_bytes,
                         .extra = {{"object_bytes", object_bytes},
                                   {"threads", threads},
                                   {"host_misaligned_bytes", misaligned},
                                   {"working_set_bytes", options.working_set_bytes}}},
                        contenders);
      }
    }
  }
}

}  // namespace nearkv::bench
