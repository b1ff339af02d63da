// The EMBEDDED_METADATA of an xclbin: its kernels, for XRT's API.
#ifndef NEARKV_HLS_XRT_XCLBIN_METADATA_HPP_
#define NEARKV_HLS_XRT_XCLBIN_METADATA_HPP_

#include <string>

#include "xrt/xclbin/description.hpp"

namespace nearkv::hw_emu {

/// XML.
std::string make_metadata(const Description& description);

}  // namespace nearkv::hw_emu

#endif  // NEARKV_HLS_XRT_XCLBIN_METADATA_HPP_
