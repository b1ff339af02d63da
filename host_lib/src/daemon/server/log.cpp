#include "daemon/server/log.hpp"

#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <nlohmann/json.hpp>

namespace nearkv {
namespace {

spdlog::level::level_enum level_of(LogLevel level) {
  switch (level) {
    case LogLevel::kDebug:
      return spdlog::level::debug;
    case LogLevel::kInfo:
      return spdlog::level::info;
    case LogLevel::kWarning:
      return spdlog::level::warn;
    case LogLevel::kError:
      break;
  }
  return spdlog::level::err;
}

/// A JSON text of ASCII alone, so that no name drives a terminal; bytes that are not UTF-8 are
/// replaced, so that every line stays valid.
std::string dump(const nlohmann::json& value) {
  return value.dump(-1, ' ', /*ensure_ascii=*/true, nlohmann::json::error_handler_t::replace);
}

nlohmann::json to_json(const Log::Value& value) {
  return std::visit([](const auto& held) { return nlohmann::json(held); }, value);
}

/// " key=value" for each field; texts in quotes, so that no client can forge a line.
std::string as_text(std::string_view event, const Log::Fields& fields) {
  std::string line(event);
  for (const auto& [key, value] : fields) {
    line.append(" ").append(key).append("=").append(dump(to_json(value)));
  }
  return line;
}

/// The members after those that the pattern writes.
std::string as_json(std::string_view event, const Log::Fields& fields) {
  std::string line = dump(nlohmann::json(std::string(event)));
  for (const auto& [key, value] : fields) {
    line.append(",").append(dump(nlohmann::json(std::string(key)))).append(":");
    line.append(dump(to_json(value)));
  }
  return line;
}

}  // namespace

Log::Log(LogLevel level, LogForm form)
    : logger_(std::make_shared<spdlog::logger>("nearkv",
                                               std::make_shared<spdlog::sinks::stderr_sink_mt>())),
      form_(form) {
  logger_->set_pattern(form == LogForm::kJson
                           ? R"({"time":"%Y-%m-%dT%H:%M:%S.%e%z","level":"%l","event":%v})"
                           : "%Y-%m-%d %H:%M:%S.%e %l %v");
  set_level(level);
}

void Log::set_level(LogLevel level) { logger_->set_level(level_of(level)); }

void Log::write(LogLevel level, std::string_view event, const Fields& fields) const {
  if (!logger_->should_log(level_of(level))) return;
  // Through "{}": what a client has named must not become a format.
  logger_->log(level_of(level), "{}",
               form_ == LogForm::kJson ? as_json(event, fields) : as_text(event, fields));
}

void Log::debug(std::string_view event, const Fields& fields) const {
  write(LogLevel::kDebug, event, fields);
}
void Log::info(std::string_view event, const Fields& fields) const {
  write(LogLevel::kInfo, event, fields);
}
void Log::warning(std::string_view event, const Fields& fields) const {
  write(LogLevel::kWarning, event, fields);
}
void Log::error(std::string_view event, const Fields& fields) const {
  write(LogLevel::kError, event, fields);
}

}  // namespace nearkv
