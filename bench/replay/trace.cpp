#include "trace.hpp"

#include <cmath>
#include <fstream>
#include <nlohmann/json.hpp>
#include <optional>
#include <stdexcept>
#include <unordered_map>

namespace nearkv::replay {
namespace {

using Json = nlohmann::json;

constexpr std::uint64_t kMostTokens = 1'000'000'000;
constexpr std::uint64_t kMostMs = 1ULL << 52;
/// Up to here a double holds every whole number.
constexpr std::uint64_t kMostExact = 1ULL << 53;

std::optional<std::uint64_t> whole_number(const Json& value) {
  if (value.is_number_unsigned()) return value.get<std::uint64_t>();
  const double number = value.is_number_float() ? value.get<double>() : -1;
  if (!(number >= 0 && number <= kMostExact) || number != std::floor(number)) return std::nullopt;
  return static_cast<std::uint64_t>(number);
}

/// A request's `key`; 0 if it has none and need not. Throws std::invalid_argument that says what
/// is `allowed`.
std::uint64_t take(const Json& request, const char* key, bool is_needed, std::uint64_t most,
                   const char* allowed) {
  const auto found = request.find(key);
  if (found == request.end()) {
    if (!is_needed) return 0;
    throw std::invalid_argument(std::string(key) + " is missing; it has to be " + allowed);
  }
  const std::optional<std::uint64_t> number = whole_number(*found);
  if (number && *number <= most) return *number;
  throw std::invalid_argument(std::string(key) + " is not " + allowed);
}

/// Adds a line's request. Throws std::invalid_argument.
void add_request(const std::string& line, TraceNeeds needs,
                 std::unordered_map<std::uint64_t, std::uint32_t>* numbers, Trace* trace) {
  const Json request = Json::parse(line, nullptr, /*allow_exceptions=*/false);
  const auto ids = request.is_object() ? request.find("hash_ids") : request.end();
  const char* const kind = "not a JSON object whose hash_ids are a list of whole numbers";
  if (!request.is_object() || ids == request.end() || !ids->is_array()) {
    throw std::invalid_argument(kind);
  }
  for (const Json& id : *ids) {
    const std::optional<std::uint64_t> hash_id = whole_number(id);
    if (!hash_id) throw std::invalid_argument(kind);
    const auto next = static_cast<std::uint32_t>(numbers->size());
    const auto [found, is_new] = numbers->try_emplace(*hash_id, next);
    if (is_new) trace->hash_ids.push_back(*hash_id);
    trace->blocks.push_back(found->second);
  }
  trace->ends.push_back(trace->blocks.size());
  trace->arrivals_ms.push_back(
      take(request, "timestamp", needs >= TraceNeeds::kArrivals, kMostMs,
           "a whole number of milliseconds, counted from the first request"));
  const auto take_length = [&](const char* key) {
    return static_cast<std::uint32_t>(take(request, key, needs >= TraceNeeds::kLengths, kMostTokens,
                                           "a whole number of tokens, up to a billion"));
  };
  trace->input_tokens.push_back(take_length("input_length"));
  trace->output_tokens.push_back(take_length("output_length"));
}

}  // namespace

bool read_trace(std::istream& input, TraceNeeds needs, Trace* trace, std::string* reason) {
  *trace = {};
  std::unordered_map<std::uint64_t, std::uint32_t> numbers;
  std::size_t line_number = 0;
  for (std::string line; std::getline(input, line);) {
    ++line_number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    try {
      add_request(line, needs, &numbers, trace);
    } catch (const std::invalid_argument& error) {
      *reason = "line " + std::to_string(line_number) + ": " + error.what();
      return false;
    }
  }
  if (!trace->blocks.empty()) return true;
  *reason = "no request with blocks";
  return false;
}

Status load_trace(const std::string& path, TraceNeeds needs, Trace* trace, std::string* reason) {
  std::ifstream input(path);
  if (!input) {
    *reason = "cannot read " + path;
    return Status::kIoError;
  }
  if (read_trace(input, needs, trace, reason)) return Status::kOk;
  *reason = path + ": " + *reason;
  return Status::kBadArgument;
}

}  // namespace nearkv::replay
