// Block hashes, as Python names them.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <span>
#include <vector>

namespace nearkv::python {

/// Hashes of blocks: an array of uint64, which is lent, or a sequence of ints of 64 bits, which is
/// copied. TypeError or ValueError for all else. Needs the GIL; the span does not.
class Hashes {
 public:
  explicit Hashes(nanobind::handle hashes);

  [[nodiscard]] std::span<const std::uint64_t> span() const { return span_; }

 private:
  nanobind::object lender_;
  std::vector<std::uint64_t> copies_;
  std::span<const std::uint64_t> span_;
};

}  // namespace nearkv::python
