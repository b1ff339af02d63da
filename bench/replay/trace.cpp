#include "trace.hpp"

#include <nlohmann/json.hpp>
#include <unordered_map>

namespace nearkv::replay {

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
    const auto arrival = request.find("timestamp");
    const bool is_timed = arrival != request.end() && arrival->is_number_unsigned();
    trace->arrivals_ms.push_back(is_timed ? arrival->get<std::uint64_t>() : 0);
  }
  if (!trace->blocks.empty()) return true;
  *reason = "no request with blocks";
  return false;
}

}  // namespace nearkv::replay
