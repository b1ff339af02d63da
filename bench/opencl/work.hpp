// Data on an OpenCL device, and a pass over it of the kernels that are measured.
#pragma once

#include <cstddef>
#include <map>
#include <string>

#include "opencl/runtime.hpp"

namespace nearkv::bench {

/// Pages of 128 channels of bf16 and 8 query rows. The runtime outlives it.
class Work {
 public:
  /// `tokens` is a multiple of 64.
  Work(opencl::Runtime& runtime, std::size_t tokens);

  /// Runs each kernel once, and waits for all of them.
  void run();

  /// By kernel, what it takes in of its data in a pass, in bytes.
  [[nodiscard]] const std::map<std::string, std::size_t>& bytes() const { return bytes_; }

 private:
  template <typename... Arguments>
  void launch(const std::string& kernel, std::size_t bytes, const cl::NDRange& range,
              const Arguments&... arguments) {
    bytes_[kernel] = bytes;
    runtime_.run(kernel, range, arguments...);
  }

  void score();
  void quantise();

  opencl::Runtime& runtime_;
  std::size_t tokens_;
  std::size_t pages_;
  std::map<std::string, std::size_t> bytes_;
  cl::Buffer rows_, query_, scores_;
  cl::Buffer blocks_, is_good_;
};

}  // namespace nearkv::bench
