// What an emulated card consists of: banks of memory, kernels, their arguments and compute units.
// The xclbin is written from it, and the simulator inside is set up by it.
#ifndef NEARKV_HLS_XRT_XCLBIN_DESCRIPTION_HPP_
#define NEARKV_HLS_XRT_XCLBIN_DESCRIPTION_HPP_

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

namespace nearkv::hw_emu {

struct Bank {
  std::string tag;  ///< As XRT names it: DDR[0], HBM[3], HOST[0].
  std::uint64_t base = 0;
  std::uint64_t bytes = 0;

  [[nodiscard]] bool is_host() const { return tag.starts_with("HOST"); }
};

/// Of a kernel: a scalar in registers, or where a buffer is.
struct Argument {
  std::string name;
  std::string type;                ///< As in C: "int", "int*".
  std::uint32_t offset = 0;        ///< In the control registers.
  std::uint32_t bytes = 0;         ///< There.
  std::string port;                ///< The AXI4 master that uses the buffer; empty: a scalar.
  std::vector<std::string> banks;  ///< Of a buffer: its bank's tag, for each compute unit.

  [[nodiscard]] bool is_buffer() const { return !port.empty(); }
};

struct ComputeUnit {
  std::string name;
  std::uint64_t base = 0;  ///< Of its registers.
};

struct Kernel {
  std::string name;
  std::string protocol;  ///< ap_ctrl_hs, ap_ctrl_chain or ap_ctrl_none.
  std::string control;   ///< Prefix of the AXI4-Lite slave's ports.
  std::string clock;
  std::string reset;                 ///< Low resets; empty: there is none.
  std::string interrupt;             ///< Empty: there is none.
  std::uint32_t register_bytes = 0;  ///< That its control registers take, a power of two.
  std::vector<std::string> masters;  ///< Prefixes of AXI4 masters.
  std::vector<Argument> arguments;
  std::vector<ComputeUnit> compute_units;
};

struct Description {
  std::string platform;
  unsigned memory_latency_cycles = 0;
  std::vector<Bank> banks;
  std::vector<Kernel> kernels;
  std::map<std::string, std::string> keys;  ///< Whatever the xclbin shall say besides.

  /// Reads JSON. Throws std::runtime_error that says what is wrong with it.
  static Description parse(std::string_view json);
};

}  // namespace nearkv::hw_emu

#endif  // NEARKV_HLS_XRT_XCLBIN_DESCRIPTION_HPP_
