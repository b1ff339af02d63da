// Stands in for NIXL's header of this name, which wants the Abseil of NIXL's own build: what NIXL's
// other headers use of it, and where this plug-in says what went wrong.
#pragma once

#include <cassert>
#include <iostream>
#include <sstream>
#include <string>

namespace nearkv::nixl {

/// A line for the standard error output, written as one when it ends.
class ErrorLine {
 public:
  ErrorLine() = default;
  ErrorLine(const ErrorLine&) = delete;
  ErrorLine& operator=(const ErrorLine&) = delete;
  ~ErrorLine() { std::cerr << text_.str() + "\n"; }

  template <typename Part>
  ErrorLine& operator<<(const Part& part) {
    text_ << part;
    return *this;
  }

 private:
  std::ostringstream text_{"NEARKV: ", std::ios::ate};
};

}  // namespace nearkv::nixl

#define NIXL_ERROR nearkv::nixl::ErrorLine()
#define NIXL_ASSERT(condition) assert(condition)
