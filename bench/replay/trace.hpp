// Request traces: which blocks each request's prompt is made of.
#pragma once

#include <cstddef>
#include <cstdint>
#include <istream>
#include <span>
#include <string>
#include <vector>

#include "nearkv/status.hpp"

namespace nearkv::replay {

/// Requests in order. Blocks are numbered from 0 in the order of their first appearance.
struct Trace {
  std::vector<std::uint32_t> blocks;    ///< Of all requests, one after another.
  std::vector<std::size_t> ends{};      ///< Of each request: where its blocks end.
  std::vector<std::uint64_t> hash_ids;  ///< By block: the trace's own number for it.
  /// Of each request; 0 where the trace does not say.
  std::vector<std::uint64_t> arrivals_ms{};
  std::vector<std::uint32_t> input_tokens{};   ///< Likewise.
  std::vector<std::uint32_t> output_tokens{};  ///< Likewise.

  [[nodiscard]] std::size_t requests() const { return ends.size(); }
  [[nodiscard]] std::span<const std::uint32_t> request(std::size_t index) const {
    const std::size_t begin = index == 0 ? 0 : ends[index - 1];
    return std::span(blocks).subspan(begin, ends[index] - begin);
  }
};

/// What each request of a trace must say. Where it need not say something, that is 0.
enum class TraceNeeds : std::uint8_t {
  kBlocks,    ///< hash_ids
  kArrivals,  ///< and timestamp,
  kLengths,   ///< and input_length and output_length.
};

/// Reads Mooncake's format: a JSON object a line, whose `hash_ids` are the prompt's blocks in
/// order, equal ids meaning equal prefixes, whose `timestamp` is in milliseconds, and whose
/// `input_length` and `output_length` are in tokens. Whole numbers may be written as 100.0. Blank
/// lines are skipped. False, with `reason` naming the line, if a line is something else, such as a
/// negative time, or lacks what is needed, or there is none.
[[nodiscard]] bool read_trace(std::istream& input, TraceNeeds needs, Trace* trace,
                              std::string* reason);

/// Reads a file of them. kIoError or kBadArgument, with `reason` naming the file and the line.
[[nodiscard]] Status load_trace(const std::string& path, TraceNeeds needs, Trace* trace,
                                std::string* reason);

}  // namespace nearkv::replay
