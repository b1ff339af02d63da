// Images that tests sign, with a key of their own.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nearkv::testing {

/// An image behind its header. `signer` numbers secret keys: the card trusts the first.
std::vector<std::uint8_t> sign_image(const std::vector<std::uint8_t>& image,
                                     const std::string& revision, std::uint8_t signer = 0);

}  // namespace nearkv::testing
