#include "daemon/server/request.hpp"

#include <algorithm>
#include <cstring>
#include <string>

namespace nearkv {
namespace {

bool lies_in(std::uint64_t offset, std::uint64_t bytes, std::uint64_t area_bytes) {
  return offset <= area_bytes && bytes <= area_bytes - offset;
}

/// A structure of the request; the caller has checked that it is there.
template <typename Struct>
Struct read_at(const Request& request, std::uint64_t offset) {
  Struct value{};
  std::memcpy(&value, request.bytes.data() + offset, sizeof(value));
  return value;
}

bool take_bytes(const Request& request, std::uint32_t offset, std::uint32_t bytes, Key* key) {
  if (!lies_in(offset, bytes, request.bytes.size())) return false;
  *key = std::span(request.bytes).subspan(offset, bytes);
  return true;
}

/// All segments of a request, as memory of the client.
template <typename Byte>
bool take_segments(const Regions& regions, const Request& request, std::uint64_t offset,
                   std::vector<std::span<Byte>>* segments) {
  const std::uint64_t most = (request.bytes.size() - offset) / sizeof(nkv_daemon_segment);
  std::uint64_t count = 0;
  for (std::uint32_t i = 0; i < request.submission.items; ++i) {
    const auto item = read_at<nkv_daemon_item>(request, std::uint64_t{i} * sizeof(nkv_daemon_item));
    const std::uint64_t end = std::uint64_t{item.first_segment} + item.segments;
    if (end > most) return false;
    count = std::max(count, end);
  }
  for (std::uint64_t i = 0; i < count; ++i) {
    const auto found =
        regions.find(read_at<nkv_daemon_segment>(request, offset + i * sizeof(nkv_daemon_segment)));
    if (!found) return false;
    segments->push_back(*found);
  }
  return true;
}

}  // namespace

bool lies_in(std::span<const std::byte> area, const nkv_daemon_submission& submission) {
  return submission.request_at % 8 == 0 && submission.result_at % 8 == 0 &&
         lies_in(submission.request_at, submission.request_bytes, area.size()) &&
         lies_in(submission.result_at, submission.result_bytes, area.size());
}

void copy_request(std::span<const std::byte> area, Request* request) {
  const nkv_daemon_submission& submission = request->submission;
  const auto bytes = area.subspan(submission.request_at, submission.request_bytes);
  request->bytes.assign(bytes.begin(), bytes.end());
}

Status parse_job(const Regions& regions, RequestedJob* requested) {
  const Request& request = requested->request;
  const nkv_daemon_submission& submission = request.submission;
  const std::uint64_t items_bytes = std::uint64_t{submission.items} * sizeof(nkv_daemon_item);
  if (items_bytes > request.bytes.size() ||
      job_result_bytes(submission.items) > submission.result_bytes) {
    return Status::kBadArgument;
  }
  requested->items.clear();
  requested->sources.clear();
  requested->targets.clear();
  const bool is_set = submission.operation == NKV_DAEMON_OPERATION_SET ||
                      submission.operation == NKV_DAEMON_OPERATION_SET_PARTS;
  const bool is_get = submission.operation == NKV_DAEMON_OPERATION_GET;
  if ((is_set && !take_segments(regions, request, items_bytes, &requested->sources)) ||
      (is_get && !take_segments(regions, request, items_bytes, &requested->targets))) {
    return Status::kBadArgument;
  }
  for (std::uint32_t i = 0; i < submission.items; ++i) {
    const auto wire = read_at<nkv_daemon_item>(request, std::uint64_t{i} * sizeof(nkv_daemon_item));
    ObjectItem item;
    if (!take_bytes(request, wire.key_at, wire.key_bytes, &item.key)) return Status::kBadArgument;
    if (is_set) {
      item.source = std::span(requested->sources).subspan(wire.first_segment, wire.segments);
    } else if (is_get) {
      item.target = std::span(requested->targets).subspan(wire.first_segment, wire.segments);
    }
    item.first_part = wire.first_part;
    item.part_count = wire.part_count;
    item.key_is_digest = wire.key_is_digest != 0;
    item.generation = wire.generation;
    requested->items.push_back(item);
  }
  Job& job = requested->job;
  job = Job();
  job.kind = static_cast<JobKind>(submission.operation);
  job.namespace_number = submission.number;
  job.items = requested->items;
  job.quiet = is_get && (submission.flags & NKV_DAEMON_FLAG_QUIET) != 0;
  if (!is_set) return Status::kOk;
  if (!take_bytes(request, submission.parent_at, submission.parent_bytes, &job.parent)) {
    return Status::kBadArgument;
  }
  job.chain = (submission.flags & NKV_DAEMON_FLAG_CHAIN) != 0;
  job.overwrite = (submission.flags & NKV_DAEMON_FLAG_OVERWRITE) != 0;
  job.evict = (submission.flags & NKV_DAEMON_FLAG_KEEP) == 0;
  job.parts = submission.parts;
  job.object_bytes = submission.object_bytes;
  // As many seconds as a record can hold; more is never.
  constexpr std::uint64_t kMostSeconds = 0xFFFFFFFF;
  job.age = std::chrono::seconds(std::min(submission.argument, kMostSeconds));
  return Status::kOk;
}

Status parse_keys(const Request& request, std::vector<Key>* keys) {
  const std::uint64_t bytes = std::uint64_t{request.submission.items} * sizeof(nkv_daemon_key);
  if (bytes > request.bytes.size()) return Status::kBadArgument;
  keys->clear();
  for (std::uint32_t i = 0; i < request.submission.items; ++i) {
    const auto wire = read_at<nkv_daemon_key>(request, std::uint64_t{i} * sizeof(nkv_daemon_key));
    Key key;
    if (!take_bytes(request, wire.key_at, wire.key_bytes, &key)) return Status::kBadArgument;
    keys->push_back(key);
  }
  return Status::kOk;
}

Status parse_namespace(const Request& request, Namespace* name) {
  if (request.bytes.size() < sizeof(nkv_daemon_namespace)) return Status::kBadArgument;
  const auto wire = read_at<nkv_daemon_namespace>(request, 0);
  std::uint64_t at = sizeof(wire);
  const auto take = [&](std::uint32_t bytes, std::string* text) {
    if (!lies_in(at, bytes, request.bytes.size())) return false;
    text->assign(reinterpret_cast<const char*>(request.bytes.data() + at), bytes);
    at += bytes;
    return true;
  };
  name->tenant = wire.tenant;
  name->rank = wire.rank;
  name->group = wire.group;
  const bool whole = take(wire.model_bytes, &name->model) && take(wire.dtype_bytes, &name->dtype) &&
                     take(wire.layout_bytes, &name->layout) && take(wire.salt_bytes, &name->salt);
  return whole ? Status::kOk : Status::kBadArgument;
}

Status parse_namespace_info(const Request& request, NamespaceInfo* info) {
  if (request.bytes.size() < sizeof(nkv_daemon_namespace_info)) return Status::kBadArgument;
  const auto wire = read_at<nkv_daemon_namespace_info>(request, 0);
  if (wire.text_bytes > sizeof(wire.text)) return Status::kBadArgument;
  info->tenant = wire.tenant;
  info->text.assign(reinterpret_cast<const char*>(wire.text), wire.text_bytes);
  std::ranges::copy(wire.digest, info->digest.begin());
  return Status::kOk;
}

}  // namespace nearkv
