// What is behind a handle of the C API, and the checks that its functions share.
#pragma once

#include <algorithm>
#include <cstring>
#include <mutex>
#include <new>
#include <span>
#include <string>
#include <utility>

#include "machine.hpp"

struct nearkv_cuda {
  nearkv::cuda::Machine machine;
  std::mutex mutex;
  std::string last_error;  ///< Under mutex.
};

namespace nearkv::cuda {

inline void copy_text(const std::string& text, char* out, std::size_t bytes) {
  if (out == nullptr || bytes == 0) return;
  const std::size_t count = std::min(text.size(), bytes - 1);
  std::memcpy(out, text.data(), count);
  out[count] = 0;
}

[[nodiscard]] inline Outcome refuse(std::string why) {
  return {Status::kBadArgument, std::move(why)};
}

/// Makes a GPU current for as long as it lives.
class Entered {
 public:
  explicit Entered(const Machine& machine) : outcome_(machine.enter(&before_)) {}
  Entered(const Entered&) = delete;
  Entered& operator=(const Entered&) = delete;
  ~Entered() {
    if (outcome_.ok()) Machine::leave(before_);
  }
  [[nodiscard]] const Outcome& outcome() const { return outcome_; }

 private:
  int before_ = 0;
  Outcome outcome_;
};

/// The library's edge: runs `body` with the GPU current, and keeps what it says of a failure.
template <typename Body>
std::uint8_t at_edge(nearkv_cuda* gpu, Body&& body) noexcept {
  try {
    const Entered entered(gpu->machine);
    Outcome outcome = entered.outcome();
    if (outcome.ok()) outcome = body(gpu->machine);
    if (!outcome.ok()) {
      const std::scoped_lock lock(gpu->mutex);
      gpu->last_error = std::move(outcome.reason);
    }
    return static_cast<std::uint8_t>(outcome.status);
  } catch (const std::bad_alloc&) {
    return NKV_STATUS_OUT_OF_MEMORY;
  } catch (...) {
    return NKV_STATUS_INTERNAL;
  }
}

/// A pointer of some work, to be checked before a kernel follows it.
struct Pointer {
  const void* place;
  const char* name;
  std::size_t alignment = sizeof(Words4);
  bool is_optional = false;
};

/// kBadArgument, with its name, for a pointer that is null, not aligned, or out of kernels' reach.
[[nodiscard]] inline Outcome check(const Machine& machine, std::span<const Pointer> pointers) {
  for (const Pointer& pointer : pointers) {
    if (pointer.place == nullptr && pointer.is_optional) continue;
    const std::string name = pointer.name;
    if (pointer.place == nullptr) return refuse(name + " is null");
    if (reinterpret_cast<std::uintptr_t>(pointer.place) % pointer.alignment != 0) {
      return refuse(name + " must start at a multiple of " + std::to_string(pointer.alignment) +
                    " bytes");
    }
    if (!machine.reaches(pointer.place)) {
      return refuse(name + " is not memory that the GPU reaches; copy it there, or pin it");
    }
  }
  return {};
}

/// kBadArgument unless `dim` is what pages hold.
[[nodiscard]] inline Outcome check_dim(std::uint32_t dim, const char* name) {
  if (dim >= 16 && dim <= NKV_MAX_HEAD_DIM && dim % 16 == 0) return {};
  return refuse(std::string(name) + " is " + std::to_string(dim) +
                "; it must be a multiple of 16 from 16 to " + std::to_string(NKV_MAX_HEAD_DIM));
}

[[nodiscard]] inline bool is_number_dtype(std::uint32_t dtype) {
  return dtype == NKV_DTYPE_BF16 || dtype == NKV_DTYPE_FP16 || dtype == NKV_DTYPE_FP32;
}

}  // namespace nearkv::cuda
