// Requests of traces that go on for as long as is wanted.
#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "trace.hpp"

namespace nearkv::tier_bench {

/// Throws std::runtime_error.
inline replay::Trace load_trace(const std::string& path) {
  replay::Trace trace;
  std::string reason;
  if (replay::load_trace(path, replay::TraceNeeds::kArrivals, &trace, &reason) != Status::kOk) {
    throw std::runtime_error(reason);
  }
  return trace;
}

struct Request {
  std::uint64_t arrival_ms = 0;
  std::uint64_t content = 0;  ///< Goes before each block's number to make it one of its own.
  std::span<const std::uint32_t> blocks;
};

/// Several traces as one, in the order of arrival. A trace that ends begins anew with other
/// contents, as on the next hour.
class RequestStream {
 public:
  explicit RequestStream(const std::vector<std::string>& paths) {
    for (const std::string& path : paths) {
      sources_.push_back({load_trace(path)});
      if (sources_.back().trace.arrivals_ms.back() == 0) {
        throw std::runtime_error(path + ": its requests come all at once, at timestamp 0");
      }
    }
  }

  Request next() {
    std::size_t first = 0;
    for (std::size_t i = 1; i < sources_.size(); ++i) {
      if (sources_[i].arrival_ms() < sources_[first].arrival_ms()) first = i;
    }
    Source& source = sources_[first];
    const Request request{source.arrival_ms(), (first << 16 | source.loops) << 32,
                          source.trace.request(source.at)};
    if (++source.at == source.trace.requests()) {
      source.at = 0;
      ++source.loops;
    }
    return request;
  }

 private:
  struct Source {
    replay::Trace trace;
    std::size_t at = 0;
    std::uint64_t loops = 0;

    [[nodiscard]] std::uint64_t arrival_ms() const {
      return loops * (trace.arrivals_ms.back() + 1) + trace.arrivals_ms[at];
    }
  };

  std::vector<Source> sources_;
};

}  // namespace nearkv::tier_bench
