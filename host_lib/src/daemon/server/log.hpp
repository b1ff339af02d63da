// What a daemon tells its operator: one line for each event, for people or for machines.
#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "nearkv/status.hpp"

namespace spdlog {
class logger;  // NOLINT(readability-identifier-naming): its own name.
}

namespace nearkv {

enum class LogLevel : std::uint8_t { kDebug, kInfo, kWarning, kError };
enum class LogForm : std::uint8_t { kText, kJson };

/// Writes to standard error. Thread safety: all calls.
class Log {
 public:
  using Value = std::variant<std::string, std::uint64_t>;
  using Fields = std::vector<std::pair<std::string_view, Value>>;

  Log(LogLevel level, LogForm form);

  void set_level(LogLevel level);

  void debug(std::string_view event, const Fields& fields = {}) const;
  void info(std::string_view event, const Fields& fields = {}) const;
  void warning(std::string_view event, const Fields& fields = {}) const;
  void error(std::string_view event, const Fields& fields = {}) const;

 private:
  void write(LogLevel level, std::string_view event, const Fields& fields) const;

  std::shared_ptr<spdlog::logger> logger_;
  LogForm form_;
};

}  // namespace nearkv
