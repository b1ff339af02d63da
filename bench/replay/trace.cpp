#include "trace.hpp"

#include <nlohmann/json.hpp>
#include <unordered_map>

namespace nearkv::replay {
namespace {

constexpr std::uint64_t kMostTokens = 1'000'000'000;

/// A whole number up to `most`; 0 if the request has none. False if it is something else.
bool read_number(const nlohmann::json& request, const char* key, std::uint64_t most,
                 std::uint64_t* number) {
  const auto found = request.find(key);
  if (found == request.end()) return true;
  if (!found->is_number_unsigned() || found->get<std::uint64_t>() > most) return false;
  *number = found->get<std::uint64_t>();
  return true;
}

/// Adds a request's time and lengths. False, with the key that holds something else, and what is
/// allowed there.
bool read_numbers(const nlohmann::json& request, Trace* trace, std::string* reason) {
  constexpr std::uint64_t kMostMs = 1ULL << 52;
  std::uint64_t arrival_ms = 0;
  std::uint64_t input_tokens = 0;
  std::uint64_t output_tokens = 0;
  if (!read_number(request, "timestamp", kMostMs, &arrival_ms)) {
    *reason =
        "timestamp is no whole number of milliseconds from 0 on; count from the first request";
  } else if (!read_number(request, "input_length", kMostTokens, &input_tokens) ||
             !read_number(request, "output_length", kMostTokens, &output_tokens)) {
    *reason = "input_length and output_length are whole numbers of tokens, up to a billion";
  } else {
    trace->arrivals_ms.push_back(arrival_ms);
    trace->input_tokens.push_back(static_cast<std::uint32_t>(input_tokens));
    trace->output_tokens.push_back(static_cast<std::uint32_t>(output_tokens));
    return true;
  }
  return false;
}

}  // namespace

bool read_trace(std::istream& input, Trace* trace, std::string* reason) {
  *trace = {};
  std::unordered_map<std::uint64_t, std::uint32_t> numbers;
  std::size_t line_number = 0;
  for (std::string line; std::getline(input, line);) {
    ++line_number;
    if (line.find_first_not_of(" \t\r") == std::string::npos) continue;
    const auto request = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    const auto ids = request.is_object() ? request.find("hash_ids") : request.end();
    bool is_request = request.is_object() && ids != request.end() && ids->is_array();
    for (std::size_t i = 0; is_request && i < ids->size(); ++i) {
      is_request = (*ids)[i].is_number_unsigned();
      if (!is_request) break;
      const auto hash_id = (*ids)[i].get<std::uint64_t>();
      const auto next = static_cast<std::uint32_t>(numbers.size());
      const auto [found, is_new] = numbers.try_emplace(hash_id, next);
      if (is_new) trace->hash_ids.push_back(hash_id);
      trace->blocks.push_back(found->second);
    }
    if (!is_request) {
      *reason = "line " + std::to_string(line_number) +
                ": not a JSON object whose hash_ids are a list of whole numbers";
      return false;
    }
    trace->ends.push_back(trace->blocks.size());
    if (!read_numbers(request, trace, reason)) {
      *reason = "line " + std::to_string(line_number) + ": " + *reason;
      return false;
    }
  }
  if (!trace->blocks.empty()) return true;
  *reason = "no request with blocks";
  return false;
}

}  // namespace nearkv::replay
