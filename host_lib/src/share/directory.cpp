#include "share/directory.hpp"

namespace nearkv {
namespace {

ObjectId id_of(const nkv_share_message& message) {
  return {message.origin_host, message.origin_epoch, message.origin_number};
}

nkv_share_message version_of(const nkv_share_entry& object) {
  nkv_share_message message{};
  message.version = object.version;
  message.first_extent = object.first_extent;
  message.length = object.length;
  message.payload_crc = object.payload_crc;
  return message;
}

}  // namespace

Directory::Directory(ShareContext* context, Mailboxes* mailboxes, ObjectHome* home)
    : context_(*context), mailboxes_(*mailboxes), home_(*home) {}

void Directory::send(std::uint16_t to, std::uint8_t kind, const ObjectId& id,
                     const nkv_share_message& about) {
  nkv_share_message message = about;
  message.kind = kind;
  message.origin_host = id.host;
  message.origin_epoch = id.epoch;
  message.origin_number = id.number;
  mailboxes_.send(to, message);
}

// --- The client's end ----------------------------------------------------------------------------

Status Directory::request(const ObjectId& id, std::uint8_t kind, std::uint32_t bytes) {
  const std::optional<std::uint16_t> home = home_.home_of(id);
  if (!home) return Status::kNotFound;
  nkv_share_message about{};
  about.length = bytes;
  send(*home, kind, id, about);
  const bool is_read = kind == NKV_SHARE_MESSAGE_KIND_READ;
  grants_[id] = {is_read ? Right::kWantsRead : Right::kWantsWrite, *home,
                 context_.view.hosts[*home].epoch, about};
  return Status::kNotYet;
}

Status Directory::acquire_read(const ObjectId& id) {
  const auto found = grants_.find(id);
  if (found == grants_.end()) return request(id, NKV_SHARE_MESSAGE_KIND_READ, 0);
  return found->second.right == Right::kRead ? Status::kOk : Status::kNotYet;
}

Status Directory::acquire_write(const ObjectId& id, std::uint32_t bytes) {
  const auto found = grants_.find(id);
  if (found == grants_.end() || found->second.right == Right::kRead) {
    return request(id, NKV_SHARE_MESSAGE_KIND_WRITE, bytes);
  }
  return found->second.right == Right::kWrite ? Status::kOk : Status::kNotYet;
}

const nkv_share_message* Directory::readable(const ObjectId& id) const {
  const auto found = grants_.find(id);
  if (found == grants_.end() || found->second.right != Right::kRead) return nullptr;
  return &found->second.version;
}

const nkv_share_message* Directory::writable(const ObjectId& id) const {
  const auto found = grants_.find(id);
  if (found == grants_.end() || found->second.right != Right::kWrite) return nullptr;
  return &found->second.version;
}

void Directory::written(const ObjectId& id, std::uint32_t payload_crc) {
  Grant& grant = grants_.at(id);
  grant.version.payload_crc = payload_crc;
  grant.right = Right::kWritten;
  send(grant.home, NKV_SHARE_MESSAGE_KIND_WRITTEN, id, grant.version);
}

Status Directory::finish_write(const ObjectId& id) {
  const auto found = grants_.find(id);
  if (found == grants_.end()) return Status::kNotFound;
  const Right right = found->second.right;
  if (right != Right::kDone && right != Right::kLost) return Status::kNotYet;
  grants_.erase(found);
  return right == Right::kDone ? Status::kOk : Status::kAborted;
}

void Directory::take_at_client(std::uint16_t from, const nkv_share_message& message) {
  const ObjectId id = id_of(message);
  const auto found = grants_.find(id);
  const bool is_ours = found != grants_.end() && found->second.home == from;
  switch (message.kind) {
    case NKV_SHARE_MESSAGE_KIND_GRANT_READ:
    case NKV_SHARE_MESSAGE_KIND_GRANT_WRITE: {
      if (!is_ours) break;
      const bool is_read = message.kind == NKV_SHARE_MESSAGE_KIND_GRANT_READ;
      if (found->second.right != (is_read ? Right::kWantsRead : Right::kWantsWrite)) break;
      found->second.right = is_read ? Right::kRead : Right::kWrite;
      found->second.version = message;
      break;
    }
    case NKV_SHARE_MESSAGE_KIND_INVALIDATE:
      if (is_ours && found->second.right == Right::kRead) grants_.erase(found);
      send(from, NKV_SHARE_MESSAGE_KIND_INVALIDATED, id);
      break;
    case NKV_SHARE_MESSAGE_KIND_DONE:
      if (!is_ours) break;
      if (found->second.right == Right::kWritten && message.version != 0) {
        found->second.right = Right::kDone;
      } else {
        grants_.erase(found);
      }
      break;
    default:
      break;
  }
}

// --- The home's end ------------------------------------------------------------------------------

void Directory::take(std::uint16_t from, const nkv_share_message& message) {
  switch (message.kind) {
    case NKV_SHARE_MESSAGE_KIND_READ:
    case NKV_SHARE_MESSAGE_KIND_WRITE:
    case NKV_SHARE_MESSAGE_KIND_INVALIDATED:
    case NKV_SHARE_MESSAGE_KIND_WRITTEN:
      take_at_home(from, message);
      break;
    default:
      take_at_client(from, message);
  }
}

void Directory::take_at_home(std::uint16_t from, const nkv_share_message& message) {
  const ObjectId id = id_of(message);
  if (home_.owned(id) == nullptr) {
    send(from, NKV_SHARE_MESSAGE_KIND_DONE, id);
    return;
  }
  Block& block = blocks_[id];
  switch (message.kind) {
    case NKV_SHARE_MESSAGE_KIND_INVALIDATED:
      block.readers.erase(from);
      block.invalidating.erase(from);
      break;
    case NKV_SHARE_MESSAGE_KIND_WRITTEN:
      if (block.writer && block.writer->request.from == from) {
        block.writer->request.message = message;
        block.writer->state = Writer::State::kWritten;
      }
      break;
    default:
      block.waiting.push_back({from, context_.view.hosts[from].epoch, message});
  }
}

void Directory::invalidate_readers(const ObjectId& id, Block* block) {
  for (const auto& [reader, epoch] : block->readers) {
    if (block->invalidating.insert(reader).second) {
      send(reader, NKV_SHARE_MESSAGE_KIND_INVALIDATE, id);
    }
  }
}

bool Directory::may_remove(const ObjectId& id) {
  const auto found = blocks_.find(id);
  if (found == blocks_.end()) return true;
  Block& block = found->second;
  invalidate_readers(id, &block);
  if (!block.readers.empty() || block.writer) return false;
  for (const Request& request : block.waiting) {
    send(request.from, NKV_SHARE_MESSAGE_KIND_DONE, id);
  }
  blocks_.erase(found);
  return true;
}

bool Directory::publish_written(const ObjectId& id, Block* block) {
  const Request& request = block->writer->request;
  nkv_share_entry version = *home_.owned(id);
  version.version = request.message.version;
  version.first_extent = block->writer->place.first;
  version.length = request.message.length;
  version.payload_crc = request.message.payload_crc;
  if (home_.publish_version(version) != Status::kOk) return false;
  send(request.from, NKV_SHARE_MESSAGE_KIND_DONE, id, request.message);
  block->writer.reset();
  return true;
}

bool Directory::grant_write(const ObjectId& id, Block* block) {
  Writer& writer = *block->writer;
  const std::uint16_t to = writer.request.from;
  // Whoever asks to write has given up its right to read.
  block->readers.erase(to);
  block->invalidating.erase(to);
  invalidate_readers(id, block);
  if (!block->readers.empty() || !home_.may_grant_writes()) return false;
  nkv_share_message grant{};
  grant.version = home_.owned(id)->version + 1;
  grant.first_extent = writer.place.first;
  grant.length = writer.request.message.length;
  send(to, NKV_SHARE_MESSAGE_KIND_GRANT_WRITE, id, grant);
  writer.state = Writer::State::kWriting;
  return true;
}

bool Directory::advance(const ObjectId& id, Block* block) {
  if (block->writer) {
    switch (block->writer->state) {
      case Writer::State::kWaiting:
        return grant_write(id, block);
      case Writer::State::kWriting:
        return false;
      case Writer::State::kWritten:
        return publish_written(id, block);
    }
  }
  if (block->waiting.empty()) return false;
  const Request request = block->waiting.front();
  block->waiting.pop_front();
  if (request.message.kind == NKV_SHARE_MESSAGE_KIND_READ) {
    block->readers[request.from] = request.epoch;
    send(request.from, NKV_SHARE_MESSAGE_KIND_GRANT_READ, id, version_of(*home_.owned(id)));
    return true;
  }
  const std::optional<Place> place =
      home_.allocate(context_.region.extents_for(request.message.length));
  if (place) {
    block->writer = Writer{request, *place};
    return true;
  }
  // Nobody stops reading for a write that has no space.
  block->waiting.push_back(request);
  return false;
}

void Directory::advance() {
  for (auto& [id, block] : blocks_) {
    while (advance(id, &block)) {
    }
  }
}

// --- Both ----------------------------------------------------------------------------------------

void Directory::end_dead_rights(Block* block) {
  const auto is_dead = [&](std::uint16_t host, std::uint32_t epoch) {
    return !context_.view.is_live(host, epoch);
  };
  std::erase_if(block->readers, [&](const auto& reader) {
    if (!is_dead(reader.first, reader.second)) return false;
    block->invalidating.erase(reader.first);
    return true;
  });
  std::erase_if(block->waiting,
                [&](const Request& request) { return is_dead(request.from, request.epoch); });
  if (block->writer && block->writer->state != Writer::State::kWritten &&
      is_dead(block->writer->request.from, block->writer->request.epoch)) {
    home_.abandon(block->writer->place);
    block->writer.reset();
  }
}

void Directory::follow_view() {
  for (auto& [id, block] : blocks_) end_dead_rights(&block);
  for (auto item = grants_.begin(); item != grants_.end();) {
    Grant& grant = item->second;
    const bool is_over = grant.right == Right::kDone || grant.right == Right::kLost;
    if (is_over || context_.view.is_live(grant.home, grant.home_epoch)) {
      ++item;
    } else if (grant.right == Right::kWritten) {
      grant.right = Right::kLost;
      ++item;
    } else {
      item = grants_.erase(item);
    }
  }
}

}  // namespace nearkv
