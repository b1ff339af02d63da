#include "persist/persistence.hpp"

#if defined(__x86_64__)
#include <cpuid.h>
#include <immintrin.h>
#endif

namespace nearkv {
namespace {

constexpr std::uintptr_t kLineBytes = 64;

/// What a process stores, the kernel keeps: nothing is to be written back, only order matters.
class ProcessPersistence final : public Persistence {
 public:
  void write_back(std::span<const std::byte>) noexcept override {}
  void streamed(std::span<const std::byte>) noexcept override {}
  void fence() noexcept override {
#if defined(__x86_64__)
    _mm_sfence();
#else
    std::atomic_thread_fence(std::memory_order_seq_cst);
#endif
  }
};

#if defined(__x86_64__)

// Intel SDM, CPUID leaf 7: EBX bit 23 is CLFLUSHOPT, bit 24 is CLWB.
bool has_clwb() {
  unsigned a = 0;
  unsigned b = 0;
  unsigned c = 0;
  unsigned d = 0;
  return __get_cpuid_count(7, 0, &a, &b, &c, &d) != 0 && (b & (1U << 24)) != 0;
}

__attribute__((target("clwb"))) void write_back_line(void* line) { _mm_clwb(line); }
void write_back_line_plain(void* line) { _mm_clflush(line); }

/// Lines leave the caches for the memory, which keeps them without power.
class LinePersistence final : public Persistence {
 public:
  void write_back(std::span<const std::byte> bytes) noexcept override {
    if (bytes.empty()) return;
    const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data()) & ~(kLineBytes - 1);
    const auto end = reinterpret_cast<std::uintptr_t>(bytes.data()) + bytes.size();
    for (std::uintptr_t line = begin; line < end; line += kLineBytes) {
      write_back_line_(reinterpret_cast<void*>(line));  // NOLINT(performance-no-int-to-ptr)
    }
  }
  void streamed(std::span<const std::byte>) noexcept override {}
  void fence() noexcept override { _mm_sfence(); }

 private:
  void (*const write_back_line_)(void*) = has_clwb() ? write_back_line : write_back_line_plain;
};

#else

/// Arm: DC CVAP cleans a line to the point of persistence; DSB waits for it.
class LinePersistence final : public Persistence {
 public:
  void write_back(std::span<const std::byte> bytes) noexcept override {
    if (bytes.empty()) return;
    const auto begin = reinterpret_cast<std::uintptr_t>(bytes.data()) & ~(kLineBytes - 1);
    const auto end = reinterpret_cast<std::uintptr_t>(bytes.data()) + bytes.size();
    for (std::uintptr_t line = begin; line < end; line += kLineBytes) {
      asm volatile("sys #3, c7, c12, #1, %0" ::"r"(line) : "memory");
    }
  }
  void streamed(std::span<const std::byte> bytes) noexcept override { write_back(bytes); }
  void fence() noexcept override { asm volatile("dsb ish" ::: "memory"); }
};

#endif

}  // namespace

std::unique_ptr<Persistence> Persistence::make(Durability durability) {
  if (durability == Durability::kPower) return std::make_unique<LinePersistence>();
  return std::make_unique<ProcessPersistence>();
}

}  // namespace nearkv
