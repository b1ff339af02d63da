// A kernel as the simulator runs it: something with ports that a clock drives.
#ifndef NEARKV_HLS_XRT_SIMULATOR_KERNEL_MODEL_HPP_
#define NEARKV_HLS_XRT_SIMULATOR_KERNEL_MODEL_HPP_

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>

namespace nearkv::hw_emu {

/// A port's value in a model: whole bytes, the lowest first, as Verilator keeps them. One that the
/// kernel does not have reads as 0 and takes nothing.
class Pin {
 public:
  Pin() = default;
  Pin(void* place, std::size_t bytes, unsigned bits)
      : place_(static_cast<std::byte*>(place)), bytes_(bytes), bits_(bits) {}

  [[nodiscard]] bool exists() const { return place_ != nullptr; }
  [[nodiscard]] unsigned bits() const { return bits_; }

  /// Of the lowest 64 bits.
  [[nodiscard]] std::uint64_t get() const {
    std::uint64_t value = 0;
    if (place_ != nullptr) std::memcpy(&value, place_, bytes_ < 8 ? bytes_ : 8);
    return value;
  }
  void set(std::uint64_t value) {
    if (place_ == nullptr) return;
    if (bits_ < 64) value &= (std::uint64_t{1} << bits_) - 1;
    std::memcpy(place_, &value, bytes_ < 8 ? bytes_ : 8);
  }
  /// All of it, as bytes.
  [[nodiscard]] std::span<std::byte> bytes() const { return {place_, (bits_ + 7) / 8}; }

 private:
  std::byte* place_ = nullptr;
  std::size_t bytes_ = 0;
  unsigned bits_ = 0;
};

/// Ports by name.
class Ports {
 public:
  template <typename Signal>
  void add(std::string name, Signal& signal, unsigned bits) {
    pins_[std::move(name)] = Pin(&signal, sizeof(signal), bits);
  }
  /// The port of this name, or one that does not exist.
  [[nodiscard]] Pin find(const std::string& name) const {
    const auto found = pins_.find(name);
    return found == pins_.end() ? Pin() : found->second;
  }

 private:
  std::map<std::string, Pin> pins_;
};

/// One instance of a kernel. A cycle: set its inputs, settle(), look at its outputs, clock().
class KernelModel {
 public:
  virtual ~KernelModel() = default;

  [[nodiscard]] const Ports& ports() const { return ports_; }

  /// With the clock low: outputs follow the inputs of this cycle.
  virtual void settle() = 0;
  /// The clock rises.
  virtual void clock() = 0;

 protected:
  Ports ports_;
};

/// Makes an instance of a kernel. Each simulator is linked with one of these, which knows the
/// kernels that were compiled into it; null for any other.
std::unique_ptr<KernelModel> make_kernel_model(std::string_view kernel, std::string_view instance);

}  // namespace nearkv::hw_emu

#endif  // NEARKV_HLS_XRT_SIMULATOR_KERNEL_MODEL_HPP_
