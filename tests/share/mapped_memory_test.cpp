// The log on real memory: two processes, one file, the processor's own flushes.
#include "share/mapped_memory.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <vector>

#include "page/checksum.hpp"
#include "share/host_log.hpp"
#include "support/seed.hpp"
#include "support/temporary_file.hpp"

namespace nearkv::test {
namespace {

constexpr std::uint32_t kEntries = 20000;
constexpr std::uint32_t kExtentBytes = 256;

RegionShape small_shape() {
  RegionShape shape;
  shape.extents = 16;
  shape.extent_bytes = kExtentBytes;
  return shape;
}

std::vector<std::byte> payload(std::uint64_t number) {
  Random random = case_random(number);
  std::vector<std::byte> bytes(pick(random, 1, kExtentBytes));
  for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
  return bytes;
}

std::unique_ptr<MappedMemory> open_memory(const TemporaryFile& file) {
  std::unique_ptr<MappedMemory> memory;
  if (MappedMemory::open(file.path(), Region::bytes_of(small_shape()), &memory) != Status::kOk) {
    throw std::runtime_error("cannot map the file");
  }
  return memory;
}

/// The child: publishes entry after entry, as fast as the reader acknowledges through `pipe`.
[[noreturn]] void write_log(const TemporaryFile& file, int pipe) {
  const std::unique_ptr<MappedMemory> memory = open_memory(file);
  Region region;
  if (Region::open(*memory, &region) != Status::kOk) ::_exit(1);
  LogWriter log(*memory, region, {0, 1, 0});
  std::uint64_t acked = 0;
  for (std::uint32_t i = 0; i < kEntries; ++i) {
    const std::vector<std::byte> bytes = payload(i);
    nkv_share_entry entry{};
    entry.kind = NKV_SHARE_ENTRY_KIND_PUBLISH;
    entry.key_low = i;
    entry.first_extent = i % region.extents();
    entry.length = static_cast<std::uint32_t>(bytes.size());
    entry.payload_crc = crc32c(bytes);
    while (acked + region.extents() <= i) {
      if (::read(pipe, &acked, sizeof(acked)) != sizeof(acked)) ::_exit(2);
    }
    const std::uint64_t at = region.extent_at(entry.first_extent);
    memory->copy_in(at, bytes);
    memory->flush(at, bytes.size());
    memory->fence();
    while (log.is_nearly_full()) log.drop_oldest();
    while (log.write(&entry, acked) != Status::kOk) log.publish(1, 0);
    memory->fence();
    log.publish(1, 0);
  }
  ::_exit(0);
}

TEST(MappedMemoryTest, CarriesALogFromOneProcessToAnother) {
  const TemporaryFile file("share");
  const std::unique_ptr<MappedMemory> memory = open_memory(file);
  Region region;
  ASSERT_EQ(Region::create(*memory, small_shape(), &region), Status::kOk);
  int pipe[2];
  ASSERT_EQ(::pipe(pipe), 0);
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) {
    ::close(pipe[1]);
    write_log(file, pipe[0]);
  }
  // Its reading end stays open here: the child may end before the last acknowledgement.
  LogReader log({0, 1, 0});
  while (log.taken() < kEntries) {
    if (!log.look(*memory, region)) continue;
    while (const auto entry = log.next(*memory, region)) {
      ASSERT_EQ(entry->key_low, log.taken() - 1);
      std::vector<std::byte> bytes(entry->length);
      const std::uint64_t at = region.extent_at(entry->first_extent);
      memory->invalidate(at, bytes.size());
      memory->fence();
      memory->copy_out(at, bytes);
      ASSERT_EQ(crc32c(bytes), entry->payload_crc);
      ASSERT_EQ(bytes, payload(entry->key_low)) << "entry " << entry->key_low;
      const std::uint64_t taken = log.taken();
      ASSERT_EQ(::write(pipe[1], &taken, sizeof(taken)), ssize_t{sizeof(taken)});
    }
  }
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  EXPECT_EQ(status, 0);
  ::close(pipe[0]);
  ::close(pipe[1]);
}

TEST(MappedMemoryTest, RefusesAPathThatCannotBeMapped) {
  std::unique_ptr<MappedMemory> memory;
  EXPECT_EQ(MappedMemory::open("/nonexistent/file", 4096, &memory), Status::kIoError);
}

TEST(RegionTest, KnowsItsOwnHeaderFromOtherBytes) {
  const TemporaryFile file("region");
  const std::unique_ptr<MappedMemory> memory = open_memory(file);
  Region region;
  EXPECT_EQ(Region::open(*memory, &region), Status::kBadPool);
  RegionShape shape = small_shape();
  shape.extent_bytes = 100;
  EXPECT_EQ(Region::create(*memory, shape, &region), Status::kBadArgument);
  shape = small_shape();
  shape.extents = 1U << 20;
  EXPECT_EQ(Region::create(*memory, shape, &region), Status::kBadArgument);
  ASSERT_EQ(Region::create(*memory, small_shape(), &region), Status::kOk);
  Region again;
  ASSERT_EQ(Region::open(*memory, &again), Status::kOk);
  EXPECT_EQ(again.extents(), region.extents());
  const std::byte flipped{0xFF};
  memory->copy_in(20, std::span(&flipped, 1));
  EXPECT_EQ(Region::open(*memory, &again), Status::kBadPool);
}

}  // namespace
}  // namespace nearkv::test
