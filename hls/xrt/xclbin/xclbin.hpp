// Writes an xclbin for hardware emulation, from a description and the simulator that it shall run.
#ifndef NEARKV_HLS_XRT_XCLBIN_XCLBIN_HPP_
#define NEARKV_HLS_XRT_XCLBIN_XCLBIN_HPP_

#include <string>
#include <string_view>
#include <vector>

#include "xrt/xclbin/archive.hpp"
#include "xrt/xclbin/description.hpp"

namespace nearkv::hw_emu {

/// All bytes of the xclbin. Its UUID follows from them, so that equal contents are equal files.
/// `files` become its BITSTREAM section; those in kSimulatorFolder are what the simulator starts
/// among. Throws std::runtime_error if the archive cannot be made.
std::string make_xclbin(const Description& description, const std::vector<ArchivedFile>& files);

inline constexpr std::string_view kSimulatorFolder = "behav_waveform/xsim/";

}  // namespace nearkv::hw_emu

#endif  // NEARKV_HLS_XRT_XCLBIN_XCLBIN_HPP_
