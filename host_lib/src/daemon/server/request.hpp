// Requests, taken out of a client's reach and then apart.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "daemon/server/regions.hpp"
#include "nearkv/object_store.hpp"
#include "nkv_abi.h"

namespace nearkv {

/// A submission and the bytes of its request: copies, which the client cannot change any more.
struct Request {
  nkv_daemon_submission submission{};
  std::vector<std::byte> bytes;
};

/// Whether a submission's request and result lie in the request area.
[[nodiscard]] bool lies_in(std::span<const std::byte> area,
                           const nkv_daemon_submission& submission);

/// Copies the bytes that `request->submission` names, which lie in the area, each once.
void copy_request(std::span<const std::byte> area, Request* request);

/// A job as the store takes it, over a request's own bytes.
struct RequestedJob {
  Request request;
  Job job;
  std::vector<ObjectItem> items;
  std::vector<std::span<const std::byte>> sources;
  std::vector<std::span<std::byte>> targets;
};

/// Takes a request for a job apart. kBadArgument unless every key lies in the request, every
/// segment in a region, and the result has room. What the job means is for the store to judge.
Status parse_job(const Regions& regions, RequestedJob* job);

/// Takes the keys of a request without segments. kBadArgument.
Status parse_keys(const Request& request, std::vector<Key>* keys);

/// Takes the name out of an OPEN_NAMESPACE. kBadArgument.
Status parse_namespace(const Request& request, Namespace* name);

/// Takes the namespace out of an ADOPT_NAMESPACE. kBadArgument.
Status parse_namespace_info(const Request& request, NamespaceInfo* info);

/// Bytes that the results of a job of `items` take: sizes, then statuses.
[[nodiscard]] constexpr std::uint64_t job_result_bytes(std::uint64_t items) {
  return items * (sizeof(std::uint32_t) + sizeof(std::uint8_t));
}

}  // namespace nearkv
