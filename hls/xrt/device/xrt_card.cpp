#include "xrt/device/xrt_card.hpp"

#include <dlfcn.h>
#include <experimental/xrt_xclbin.h>
#include <xclbin.h>

#include <algorithm>
#include <charconv>
#include <exception>
#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>
#include <utility>

#include "nkv_abi.h"

namespace nearkv::xrt_device {

namespace {

constexpr const char* kKernel = "nkv";
// The kernel's arguments.
constexpr int kMemory = 0;
constexpr int kMemoryBytes = 1;
// Between looks at a card on which nothing happens.
constexpr auto kPollPause = std::chrono::microseconds(50);
constexpr auto kResetTimeout = std::chrono::seconds(30);
/// What the engine offers where the host's accesses to memory pass it, and cannot here.
constexpr std::uint64_t kOutOfReach = NKV_FEATURE_MEMORY_DOORBELLS;

/// What the xclbin's writer has put in beside kernels.
std::map<std::string, std::string> keys_of(const xrt::xclbin& xclbin) {
  std::map<std::string, std::string> keys;
  const axlf* const top = xclbin.get_axlf();
  const auto* const section = ::xclbin::get_axlf_section(top, KEYVALUE_METADATA);
  if (section == nullptr) return keys;
  const auto* const text = reinterpret_cast<const char*>(top) + section->m_sectionOffset;
  const auto json = nlohmann::json::parse(text, text + section->m_sectionSize);
  for (const auto& pair : json.at("keyvalue_metadata").at("key_values")) {
    keys[pair.at("key")] = pair.at("value");
  }
  return keys;
}

std::string usual_xclbin() {
  Dl_info info{};
  ::dladdr(reinterpret_cast<void*>(&usual_xclbin), &info);
  const std::filesystem::path library = info.dli_fname == nullptr ? "" : info.dli_fname;
  return (std::filesystem::absolute(library).parent_path() / "xrt" / "nearkv.xclbin").string();
}

/// Where the engine's registers begin; throws if the xclbin has no engine that speaks this ABI.
std::uint32_t check_xclbin(const xrt::xclbin& xclbin, const std::string& path) {
  const auto kernels = xclbin.get_kernels();
  const bool has_engine = std::ranges::any_of(
      kernels, [](const xrt::xclbin::kernel& kernel) { return kernel.get_name() == kKernel; });
  if (!has_engine) throw std::runtime_error(path + " holds no kernel " + kKernel);
  const auto keys = keys_of(xclbin);
  const auto abi = keys.find("nearkv.abi");
  const std::string ours = std::to_string(NKV_ABI_MAJOR) + "." + std::to_string(NKV_ABI_MINOR);
  const std::string theirs = abi == keys.end() ? "none" : abi->second;
  if (theirs.substr(0, theirs.find('.')) != std::to_string(NKV_ABI_MAJOR)) {
    throw std::runtime_error(path + " has ABI " + theirs + ", this library " + ours +
                             ": build one from the other's sources");
  }
  const auto registers = keys.find("nearkv.registers");
  std::uint32_t offset = 0;
  const std::string text = registers == keys.end() ? "" : registers->second;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), offset);
  if (error != std::errc() || rest != text.data() + text.size()) {
    throw std::runtime_error(path + " does not say where the engine's registers are");
  }
  return offset;
}

void reset_engine(const xrt::kernel& kernel, const xrt::bo& buffer, std::uint64_t memory_bytes) {
  xrt::run run(kernel);
  run.set_arg(kMemory, buffer);
  run.set_arg(kMemoryBytes, memory_bytes);
  run.start();
  if (run.wait(kResetTimeout) != ERT_CMD_STATE_COMPLETED) {
    throw std::runtime_error("the engine does not come out of its reset");
  }
}

}  // namespace

std::unique_ptr<XrtCard> XrtCard::open(const CardOptions& options, std::string* reason) {
  try {
    const std::string path = options.xclbin.empty() ? usual_xclbin() : options.xclbin;
    if (!std::filesystem::exists(path)) throw std::runtime_error("there is no xclbin " + path);
    const xrt::xclbin xclbin(path);
    const std::uint32_t registers = check_xclbin(xclbin, path);
    xrt::device device(options.index);
    const xrt::uuid uuid = device.load_xclbin(xclbin);
    xrt::kernel kernel(device, uuid, kKernel, xrt::kernel::cu_access_mode::exclusive);
    xrt::bo buffer(device, options.memory_bytes, xrt::bo::flags::p2p,
                   static_cast<xrt::memory_group>(kernel.group_id(kMemory)));
    reset_engine(kernel, buffer, options.memory_bytes);
    return std::unique_ptr<XrtCard>(
        new XrtCard(std::move(kernel), std::move(buffer), options.memory_bytes, registers));
  } catch (const std::exception& error) {
    *reason = error.what();
    return nullptr;
  }
}

XrtCard::XrtCard(xrt::kernel kernel, xrt::bo buffer, std::size_t memory_bytes,
                 std::uint32_t registers)
    : kernel_(std::move(kernel)),
      buffer_(std::move(buffer)),
      memory_(buffer_.map<std::byte*>(), memory_bytes),
      registers_(registers) {}

std::uint64_t XrtCard::read(std::uint32_t offset) {
  const std::uint64_t low = kernel_.read_register(registers_ + offset);
  const std::uint64_t high = kernel_.read_register(registers_ + offset + 4);
  return high << 32 | low;
}

void XrtCard::write(std::uint32_t offset, std::uint64_t value) {
  kernel_.write_register(registers_ + offset, static_cast<std::uint32_t>(value));
  kernel_.write_register(registers_ + offset + 4, static_cast<std::uint32_t>(value >> 32));
}

std::uint64_t XrtCard::read_csr(std::uint32_t offset) {
  const std::scoped_lock lock(mutex_);
  try {
    const std::uint64_t value = read(offset);
    // Stores to the mapped buffer do not pass the engine, so that they ring nothing.
    return offset == NKV_REG_FEATURES ? value & ~kOutOfReach : value;
  } catch (const std::exception&) {
    return ~std::uint64_t{0};
  }
}

void XrtCard::write_csr(std::uint32_t offset, std::uint64_t value) {
  const std::scoped_lock lock(mutex_);
  try {
    write(offset, value);
    if (offset == NKV_REG_INTERRUPT_MASK) masked_ = value;
  } catch (const std::exception&) {
    // The registers then read as all ones.
    return;
  }
}

bool XrtCard::wait(std::chrono::nanoseconds timeout) {
  const auto end = std::chrono::steady_clock::now() + timeout;
  for (;;) {
    {
      const std::scoped_lock lock(mutex_);
      try {
        // All queues' bits lie in its low half.
        const std::uint64_t status = kernel_.read_register(registers_ + NKV_REG_INTERRUPT_STATUS);
        const std::uint64_t queues = status & NKV_REG_INTERRUPT_STATUS_QUEUES_MASK & ~masked_;
        if (queues != 0) {
          write(NKV_REG_INTERRUPT_STATUS, queues);
          return true;
        }
      } catch (const std::exception&) {
        return false;
      }
    }
    if (std::chrono::steady_clock::now() >= end) return false;
    std::this_thread::sleep_for(kPollPause);
  }
}

}  // namespace nearkv::xrt_device
