// What happens at a card's edges, by cycle, in a text file.
#ifndef NEARKV_EMULATOR_VERILATED_ACCESS_TRACE_HPP_
#define NEARKV_EMULATOR_VERILATED_ACCESS_TRACE_HPP_

#include <cstdint>
#include <fstream>
#include <string>

namespace nearkv::emulator {

/// One event a line: cycle, event, and two numbers, all but the event's name decimal.
///
/// | event | numbers |
/// |---|---|
/// | csr | offset and value of a register that was written |
/// | read, write | id and address of a burst that memory takes |
/// | beat, answer | id of a read that memory answers, of a write; 0 |
/// | interrupt | bits of INTERRUPT_STATUS, of which one has come; 0 |
class AccessTrace {
 public:
  /// Not open if the file cannot be written.
  explicit AccessTrace(const std::string& path) : file_(path) {}

  [[nodiscard]] bool is_open() const { return file_.is_open(); }
  void advance() { ++now_; }
  void note(const char* event, std::uint64_t first, std::uint64_t second = 0) {
    file_ << now_ << ' ' << event << ' ' << first << ' ' << second << '\n';
  }

 private:
  std::ofstream file_;
  std::uint64_t now_ = 0;
};

}  // namespace nearkv::emulator

#endif  // NEARKV_EMULATOR_VERILATED_ACCESS_TRACE_HPP_
