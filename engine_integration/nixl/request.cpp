#include "request.hpp"

#include <string_view>
#include <unordered_map>

#include "nkv_abi.h"
#include "status.hpp"

namespace nearkv::nixl {
namespace {

Key key_of(const std::string& text) { return std::as_bytes(std::span(text)); }

}  // namespace

nixl_status_t Request::prepare(nixl_xfer_op_t operation, const nixl_meta_dlist_t& memory,
                               const nixl_meta_dlist_t& objects,
                               std::unique_ptr<Request>* request) {
  if (memory.getType() != DRAM_SEG || objects.getType() != OBJ_SEG) {
    NIXL_ERROR << "transfers go between DRAM here and objects there";
    return NIXL_ERR_INVALID_PARAM;
  }
  if (memory.descCount() != objects.descCount() || memory.isEmpty()) {
    NIXL_ERROR << "a transfer needs as many descriptors of memory as of objects, and one at least";
    return NIXL_ERR_INVALID_PARAM;
  }
  std::unique_ptr<Request> made(new Request(operation));
  std::unordered_map<std::string_view, std::size_t> last;  // Of each key, by its number.
  const auto count = static_cast<std::size_t>(memory.descCount());
  made->objects_.reserve(count);
  for (std::size_t i = 0; i < count; ++i) {
    const nixlMetaDesc& place = memory[i];
    const nixlMetaDesc& piece = objects[i];
    const auto* const name = static_cast<const ObjectName*>(piece.metadataP);
    if (name == nullptr || place.len == 0 || place.len != piece.len) {
      NIXL_ERROR << "descriptor " << i << ": no object, no bytes, or not as many on both sides";
      return NIXL_ERR_INVALID_PARAM;
    }
    const auto [known, is_new] = last.try_emplace(name->key, made->objects_.size());
    const bool begins = is_new || (piece.addr == 0 && operation == NIXL_READ);
    const std::uint64_t end = begins ? 0 : made->objects_[known->second].bytes;
    if (piece.addr != end) {
      NIXL_ERROR << "descriptor " << i << ": begins at byte " << piece.addr << " of an object, not "
                 << end << "; objects are moved whole, from their first byte on";
      return NIXL_ERR_NOT_SUPPORTED;
    }
    if (begins) {
      known->second = made->objects_.size();
      made->objects_.push_back({name->key, {}, {}, 0});
    }
    Object& object = made->objects_[known->second];
    if (place.len > NKV_MAX_OBJECT_BYTES - object.bytes) {
      NIXL_ERROR << "descriptor " << i << ": an object has " << NKV_MAX_OBJECT_BYTES
                 << " bytes at most";
      return NIXL_ERR_INVALID_PARAM;
    }
    auto* const bytes = reinterpret_cast<std::byte*>(place.addr);
    if (operation == NIXL_WRITE) {
      object.source.emplace_back(bytes, place.len);
    } else {
      object.target.emplace_back(bytes, place.len);
    }
    object.bytes += place.len;
    made->bytes_ += place.len;
  }
  made->items_.reserve(made->objects_.size());
  for (const Object& object : made->objects_) {
    ObjectItem item;
    item.key = key_of(object.key);
    item.source = object.source;
    item.target = object.target;
    made->items_.push_back(item);
  }
  *request = std::move(made);
  return NIXL_SUCCESS;
}

Job Request::job(std::uint32_t space, bool overwrite) const {
  Job job;
  job.kind = operation_ == NIXL_WRITE ? JobKind::kSet : JobKind::kGet;
  job.namespace_number = space;
  job.items = items_;
  job.overwrite = overwrite && job.kind == JobKind::kSet;
  return job;
}

nixl_status_t Request::outcome(const JobResult& result) const {
  nixl_status_t first = NIXL_SUCCESS;
  std::string_view said;
  std::size_t failed = 0;
  for (std::size_t i = 0; i < objects_.size(); ++i) {
    const Status of_item = result.items[i];
    nixl_status_t ended = to_nixl(of_item);
    std::string_view why = message(of_item);
    // A get into too little memory is a bad argument, and tells the size.
    const bool has_size = of_item == Status::kOk || of_item == Status::kBadArgument;
    if (operation_ == NIXL_READ && has_size && result.object_bytes[i] != objects_[i].bytes) {
      ended = NIXL_ERR_MISMATCH;
      why = "the object has another size";
    }
    if (ended == NIXL_SUCCESS || failed++ != 0) continue;
    first = ended;
    said = why;
  }
  if (failed != 0 && first != NIXL_ERR_CANCELED) {
    NIXL_ERROR << failed << " of " << objects_.size() << " objects not "
               << (operation_ == NIXL_WRITE ? "written" : "read") << ": " << said;
  }
  return first;
}

}  // namespace nearkv::nixl
