// The master of a kernel's AXI4-Lite control port: one access at a time.
#ifndef NEARKV_HLS_XRT_SIMULATOR_AXI_LITE_MASTER_HPP_
#define NEARKV_HLS_XRT_SIMULATOR_AXI_LITE_MASTER_HPP_

#include <cstdint>
#include <string>

#include "xrt/simulator/kernel_model.hpp"

namespace nearkv::hw_emu {

/// Each cycle: drive() before the model settles, sample() after.
class AxiLiteMaster {
 public:
  /// `prefix` is that of the ports, as s_axi_control.
  AxiLiteMaster(const Ports& ports, const std::string& prefix);

  /// Begins an access to 32 bits; none may be going on.
  void begin_read(std::uint32_t offset);
  void begin_write(std::uint32_t offset, std::uint32_t value);
  [[nodiscard]] bool is_busy() const { return state_ != State::kIdle; }
  /// Of the last read.
  [[nodiscard]] std::uint32_t value() const { return value_; }
  /// Whether the last access was answered by an error.
  [[nodiscard]] bool failed() const { return failed_; }

  void drive();
  void sample();

 private:
  enum class State { kIdle, kRead, kWrite };

  Pin awvalid_, awready_, awaddr_, wvalid_, wready_, wdata_, wstrb_, bvalid_, bready_, bresp_;
  Pin arvalid_, arready_, araddr_, rvalid_, rready_, rdata_, rresp_;
  State state_ = State::kIdle;
  bool address_taken_ = false;
  bool data_taken_ = false;
  bool failed_ = false;
  std::uint32_t offset_ = 0;
  std::uint32_t value_ = 0;
};

}  // namespace nearkv::hw_emu

#endif  // NEARKV_HLS_XRT_SIMULATOR_AXI_LITE_MASTER_HPP_
