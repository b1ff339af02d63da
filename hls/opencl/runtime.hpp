// An OpenCL device with the kernels built for it, and one in-order queue that is profiled.
#ifndef NEARKV_OPENCL_RUNTIME_HPP_
#define NEARKV_OPENCL_RUNTIME_HPP_

#define CL_HPP_TARGET_OPENCL_VERSION 120
#define CL_HPP_MINIMUM_OPENCL_VERSION 120
#include <CL/opencl.hpp>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace nearkv::opencl {

/// What a kernel took so far, by the queue's own clock.
struct KernelTime {
  std::uint64_t runs = 0;
  std::uint64_t device_ns = 0;
};

/// Calls are made by one thread at a time. The first error since take_error() makes all that follow
/// do nothing: whoever works through a command asks once, at its end.
class Runtime {
 public:
  /// The device of this number, counted over all platforms; null with the reason told if there is
  /// none, or the kernels cannot be built for it.
  static std::unique_ptr<Runtime> open(unsigned number, std::string* reason);

  /// "NAME (PLATFORM)".
  [[nodiscard]] std::string name() const;

  /// A buffer of device memory; of no bytes it is a byte.
  cl::Buffer allocate(std::size_t bytes);

  template <typename T>
  cl::Buffer upload(std::span<const T> values) {
    cl::Buffer buffer = allocate(values.size_bytes());
    write(buffer, values.data(), values.size_bytes());
    return buffer;
  }

  /// A buffer of as many zeros.
  template <typename T>
  cl::Buffer zeros(std::size_t count) {
    return upload<T>(std::vector<T>(count));
  }

  /// Waits for all that was asked before.
  template <typename T>
  void download(const cl::Buffer& buffer, std::span<T> values) {
    read(buffer, values.data(), values.size_bytes());
  }

  /// Runs a kernel over `range` work items, of one or two dimensions, with these arguments, buffers
  /// or numbers of the types that its source has.
  template <typename... Arguments>
  void run(const std::string& kernel, const cl::NDRange& range, const Arguments&... arguments) {
    if (error_ != CL_SUCCESS) return;
    cl::Kernel* const found = kernel_of(kernel);
    if (found == nullptr) return;
    cl_uint index = 0;
    (record(found->setArg(index++, arguments)), ...);
    enqueue(kernel, *found, range);
  }

  /// The first error since the last call, CL_SUCCESS if there was none.
  [[nodiscard]] cl_int take_error();

  /// By kernel.
  [[nodiscard]] const std::map<std::string, KernelTime>& times() const { return times_; }

 private:
  Runtime(cl::Device device, cl::Context context, cl::CommandQueue queue, cl::Program program);

  cl::Kernel* kernel_of(const std::string& name);  // Null if there is none.
  void enqueue(const std::string& name, const cl::Kernel& kernel, const cl::NDRange& range);
  void write(const cl::Buffer& buffer, const void* values, std::size_t bytes);
  void read(const cl::Buffer& buffer, void* values, std::size_t bytes);
  void record(cl_int error);
  void account();

  cl::Device device_;
  cl::Context context_;
  cl::CommandQueue queue_;
  cl::Program program_;
  std::map<std::string, cl::Kernel> kernels_;
  std::vector<std::pair<std::string, cl::Event>> running_;  // Not accounted for yet.
  std::map<std::string, KernelTime> times_;
  cl_int error_ = CL_SUCCESS;
};

}  // namespace nearkv::opencl

#endif  // NEARKV_OPENCL_RUNTIME_HPP_
