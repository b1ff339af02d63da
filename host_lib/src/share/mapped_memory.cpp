#include "share/mapped_memory.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <new>

#include "nkv_abi.h"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace nearkv {
namespace {

#if defined(__x86_64__)

struct CacheControl {
  bool has_clwb = false;
  bool has_clflushopt = false;
};

CacheControl ask_processor() noexcept {
  unsigned eax = 0;
  unsigned ebx = 0;
  unsigned ecx = 0;
  unsigned edx = 0;
  if (__get_cpuid_count(7, 0, &eax, &ebx, &ecx, &edx) == 0) return {};
  return {(ebx & bit_CLWB) != 0, (ebx & bit_CLFLUSHOPT) != 0};
}

const CacheControl& cache_control() {
  static const CacheControl control = ask_processor();
  return control;
}

constexpr bool kKnowsItsCache = true;

void drop_line(void* line) {
  if (cache_control().has_clflushopt) {
    asm volatile("clflushopt (%0)" : : "r"(line) : "memory");
  } else {
    _mm_clflush(line);
  }
}

void write_back_line(void* line) {
  if (cache_control().has_clwb) {
    asm volatile("clwb (%0)" : : "r"(line) : "memory");
  } else {
    drop_line(line);
  }
}

void memory_fence() { asm volatile("mfence" : : : "memory"); }

#elif defined(__aarch64__)

constexpr bool kKnowsItsCache = true;

void drop_line(void* line) { asm volatile("dc civac, %0" : : "r"(line) : "memory"); }
void write_back_line(void* line) { asm volatile("dc cvac, %0" : : "r"(line) : "memory"); }
void memory_fence() { asm volatile("dsb sy" : : : "memory"); }

#else

constexpr bool kKnowsItsCache = false;

void drop_line(void*) {}
void write_back_line(void*) {}
void memory_fence() {}

#endif

template <typename Operation>
void for_each_line(std::span<std::byte> mapping, std::uint64_t at, std::uint64_t bytes,
                   Operation operation) {
  const std::uint64_t end = at + bytes;
  for (std::uint64_t line = at / NKV_BURST_BYTES * NKV_BURST_BYTES; line < end;
       line += NKV_BURST_BYTES) {
    operation(mapping.data() + line);
  }
}

/// Makes a file as long as the region. A device has the length that it has.
bool make_long_enough(int file, std::uint64_t bytes) {
  struct stat about{};
  if (::fstat(file, &about) != 0) return false;
  if (!S_ISREG(about.st_mode) || static_cast<std::uint64_t>(about.st_size) >= bytes) return true;
  return ::ftruncate(file, static_cast<off_t>(bytes)) == 0;
}

}  // namespace

Status MappedMemory::open(const std::string& path, std::uint64_t bytes,
                          std::unique_ptr<MappedMemory>* memory) {
  if (!kKnowsItsCache) return Status::kUnsupported;
  const int file = ::open(path.c_str(), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  if (file < 0) return Status::kIoError;
  void* mapped = MAP_FAILED;
  if (make_long_enough(file, bytes)) {
    mapped = ::mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  }
  ::close(file);
  if (mapped == MAP_FAILED) return Status::kIoError;
  memory->reset(new (std::nothrow) MappedMemory({static_cast<std::byte*>(mapped), bytes}));
  if (*memory != nullptr) return Status::kOk;
  ::munmap(mapped, bytes);
  return Status::kOutOfMemory;
}

MappedMemory::~MappedMemory() { ::munmap(mapping_.data(), mapping_.size()); }

void MappedMemory::copy_out(std::uint64_t at, std::span<std::byte> bytes) {
  std::memcpy(bytes.data(), mapping_.data() + at, bytes.size());
}

void MappedMemory::copy_in(std::uint64_t at, std::span<const std::byte> bytes) {
  std::memcpy(mapping_.data() + at, bytes.data(), bytes.size());
}

void MappedMemory::flush(std::uint64_t at, std::uint64_t bytes) {
  for_each_line(mapping_, at, bytes, write_back_line);
}

void MappedMemory::invalidate(std::uint64_t at, std::uint64_t bytes) {
  for_each_line(mapping_, at, bytes, drop_line);
}

void MappedMemory::fence() { memory_fence(); }

}  // namespace nearkv
