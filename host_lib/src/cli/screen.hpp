// A terminal's whole screen.
#pragma once

#include <chrono>
#include <string>
#include <vector>

namespace nearkv::cli {

/// Takes the terminal over while it lives. One at a time.
class Screen {
 public:
  Screen();
  Screen(const Screen&) = delete;
  Screen& operator=(const Screen&) = delete;
  ~Screen();

  /// Shows lines, cut to the screen; the first stands out.
  void show(const std::vector<std::string>& lines);

  /// False: the user wants to leave.
  [[nodiscard]] bool pause(std::chrono::duration<double> time);

 private:
  std::vector<std::string> lines_;
};

}  // namespace nearkv::cli
