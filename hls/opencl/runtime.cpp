#include "opencl/runtime.hpp"

#include <algorithm>
#include <utility>

#include "nkv_abi.h"
#include "sources.hpp"

namespace nearkv::opencl {

namespace {

// Groups of few sizes where they can be, for a driver that compiles a kernel for each size compiles
// few times. Elsewhere the driver chooses.
cl::NDRange group_of(const cl::NDRange& range) {
  constexpr std::size_t kLeastItems = 8;
  std::size_t items = NKV_PAGE_TOKENS;
  while (items >= kLeastItems && range.get()[0] % items != 0) items /= 2;
  if (items < kLeastItems) return cl::NullRange;
  return range.dimensions() == 1 ? cl::NDRange(items) : cl::NDRange(items, 1);
}

// The contract's names that kernels use.
std::string definitions() {
  const std::pair<const char*, int> names[] = {
      {"NKV_PAGE_TOKENS", NKV_PAGE_TOKENS},       {"NKV_CODEC_INT8", NKV_CODEC_INT8},
      {"NKV_CODEC_INT4", NKV_CODEC_INT4},         {"NKV_CODEC_FP8", NKV_CODEC_FP8},
      {"NKV_DTYPE_BF16", NKV_DTYPE_BF16},         {"NKV_DTYPE_FP16", NKV_DTYPE_FP16},
      {"NKV_DTYPE_FP8_E4M3", NKV_DTYPE_FP8_E4M3}, {"NKV_DTYPE_FP8_E5M2", NKV_DTYPE_FP8_E5M2}};
  std::string options = "-cl-std=CL1.2";
  for (const auto& [name, value] : names) {
    options += std::string(" -D") + name + "=" + std::to_string(value);
  }
  return options;
}

std::vector<cl::Device> all_devices() {
  std::vector<cl::Platform> platforms;
  std::vector<cl::Device> devices;
  if (cl::Platform::get(&platforms) != CL_SUCCESS) return devices;
  for (const cl::Platform& platform : platforms) {
    std::vector<cl::Device> of_platform;
    if (platform.getDevices(CL_DEVICE_TYPE_ALL, &of_platform) != CL_SUCCESS) continue;
    devices.insert(devices.end(), of_platform.begin(), of_platform.end());
  }
  return devices;
}

}  // namespace

Runtime::Runtime(cl::Device device, cl::Context context, cl::CommandQueue queue,
                 cl::Program program)
    : device_(std::move(device)),
      context_(std::move(context)),
      queue_(std::move(queue)),
      program_(std::move(program)) {}

std::unique_ptr<Runtime> Runtime::open(unsigned number, std::string* reason) {
  const std::vector<cl::Device> devices = all_devices();
  if (devices.empty()) {
    *reason =
        "no OpenCL device: install a driver for one, or the package pocl-opencl-icd for the "
        "processor; clinfo lists them";
    return nullptr;
  }
  if (number >= devices.size()) {
    *reason = "no OpenCL device " + std::to_string(number) + ": there are " +
              std::to_string(devices.size()) + ", counted from 0";
    return nullptr;
  }
  const cl::Device& device = devices[number];
  const std::string name = device.getInfo<CL_DEVICE_NAME>();
  if (device.getInfo<CL_DEVICE_ENDIAN_LITTLE>() == CL_FALSE) {
    *reason = name + " is not little-endian";
    return nullptr;
  }
  cl_int error = CL_SUCCESS;
  const cl::Context context(device, nullptr, nullptr, nullptr, &error);
  cl::CommandQueue queue;
  cl::Program program;
  if (error == CL_SUCCESS) {
    queue = cl::CommandQueue(context, device, CL_QUEUE_PROFILING_ENABLE, &error);
  }
  if (error == CL_SUCCESS) program = cl::Program(context, std::string(kSource), false, &error);
  if (error == CL_SUCCESS) error = program.build(device, definitions().c_str());
  if (error != CL_SUCCESS) {
    *reason = name + " gives OpenCL error " + std::to_string(error);
    if (error == CL_BUILD_PROGRAM_FAILURE) {
      std::string log = program.getBuildInfo<CL_PROGRAM_BUILD_LOG>(device);
      std::replace(log.begin(), log.end(), '\n', ' ');
      *reason += ": " + log;
    }
    return nullptr;
  }
  return std::unique_ptr<Runtime>(new Runtime(device, context, queue, program));
}

std::string Runtime::name() const {
  const cl::Platform platform(device_.getInfo<CL_DEVICE_PLATFORM>());
  return device_.getInfo<CL_DEVICE_NAME>() + " (" + platform.getInfo<CL_PLATFORM_NAME>() + ")";
}

cl::Buffer Runtime::allocate(std::size_t bytes) {
  if (error_ != CL_SUCCESS) return {};
  cl_int error = CL_SUCCESS;
  const cl::Buffer buffer(context_, CL_MEM_READ_WRITE, std::max<std::size_t>(bytes, 1), nullptr,
                          &error);
  record(error);
  return buffer;
}

void Runtime::write(const cl::Buffer& buffer, const void* values, std::size_t bytes) {
  if (error_ != CL_SUCCESS || bytes == 0) return;
  record(queue_.enqueueWriteBuffer(buffer, CL_TRUE, 0, bytes, values));
}

void Runtime::read(const cl::Buffer& buffer, void* values, std::size_t bytes) {
  if (error_ != CL_SUCCESS || bytes == 0) return;
  record(queue_.enqueueReadBuffer(buffer, CL_TRUE, 0, bytes, values));
  account();
}

cl::Kernel* Runtime::kernel_of(const std::string& name) {
  const auto found = kernels_.find(name);
  if (found != kernels_.end()) return &found->second;
  cl_int error = CL_SUCCESS;
  const cl::Kernel kernel(program_, name.c_str(), &error);
  record(error);
  return error == CL_SUCCESS ? &kernels_.emplace(name, kernel).first->second : nullptr;
}

void Runtime::enqueue(const std::string& name, const cl::Kernel& kernel, const cl::NDRange& range) {
  if (error_ != CL_SUCCESS) return;
  cl::Event event;
  record(
      queue_.enqueueNDRangeKernel(kernel, cl::NullRange, range, group_of(range), nullptr, &event));
  running_.emplace_back(name, event);
}

// Events hold memory of the driver, so they go as soon as their kernels are over.
void Runtime::account() {
  for (const auto& [name, event] : running_) {
    if (error_ != CL_SUCCESS) break;
    KernelTime& time = times_[name];
    ++time.runs;
    time.device_ns += event.getProfilingInfo<CL_PROFILING_COMMAND_END>() -
                      event.getProfilingInfo<CL_PROFILING_COMMAND_START>();
  }
  running_.clear();
}

void Runtime::record(cl_int error) {
  if (error_ == CL_SUCCESS) error_ = error;
}

cl_int Runtime::take_error() {
  // What was asked may still be under way, on buffers that are about to go.
  const cl_int finished = queue_.finish();
  record(finished);
  account();
  return std::exchange(error_, CL_SUCCESS);
}

}  // namespace nearkv::opencl
