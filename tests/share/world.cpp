#include "share/world.hpp"

#include <array>
#include <cstring>

namespace nearkv::test {
namespace {

constexpr std::uint32_t kExtentBytes = 64;
constexpr std::uint32_t kKeys = 5;
constexpr std::uint32_t kRounds = 200;  ///< Enough for everything to come to rest.
constexpr std::uint32_t kFewestRounds = 25;

/// Thrown by a memory access of a host that dies there.
struct HostDied {};

RegionShape shape_of(std::uint16_t hosts) {
  RegionShape shape;
  shape.hosts = hosts;
  shape.extents = 4U * hosts;
  shape.extent_bytes = kExtentBytes;
  shape.leases = 2;
  shape.messages = 2;
  return shape;
}

}  // namespace

Coverage& Coverage::operator+=(const Coverage& other) {
  published += other.published;
  read += other.read;
  removed += other.removed;
  written += other.written;
  coherent_reads += other.coherent_reads;
  power_losses += other.power_losses;
  process_crashes += other.process_crashes;
  fenced_alive += other.fenced_alive;
  adopted += other.adopted;
  borrowed += other.borrowed;
  reads_under_lease += other.reads_under_lease;
  log_rounds += other.log_rounds;
  return *this;
}

World::World(const WorldOptions& options, std::uint64_t schedule)
    : random_(case_random(schedule)),
      fabric_(Region::bytes_of(shape_of(options.hosts))),
      oracle_(options.hosts),
      nodes_(options.hosts),
      turns_(options.turns),
      misfortune_one_in_(std::array{30U, 100U, 400U}[random_() % 3]) {
  for (std::uint16_t i = 0; i < options.hosts; ++i) {
    Node& node = nodes_[i];
    node.cache = std::make_unique<fabric::HostCache>(&fabric_, random_());
    for (int stirs = 0; stirs < 100; ++stirs) node.cache->stir();
    node.memory = std::make_unique<FabricMemory>(node.cache.get(), fabric_.bytes().size(),
                                                 [this, &node] { before_access(&node); });
    node.membership = std::make_unique<OracleMembership>(
        &oracle_, i, &random_, [this, &node] { before_access(&node); },
        [this, &node] { after_change(&node); });
  }
  // The map is made from a copy, because the header is written through a cache like all else.
  fabric::Fabric plan(fabric_.bytes().size());
  fabric::HostCache plan_cache(&plan, 0);
  FabricMemory plan_memory(&plan_cache, plan.bytes().size(), [] {});
  if (Region::create(plan_memory, shape_of(options.hosts), &region_) != Status::kOk) std::abort();
  records_ = std::make_unique<RecordMap>(region_);
  for (Node& node : nodes_) {
    if (options.omission) node.memory->omit(*options.omission, records_.get());
  }
}

void World::before_access(Node* node) {
  if (running_ == nullptr) return;
  if (node->must_die) throw HostDied{};
  if (!is_at_rest_ && random_() % 24 == 0) running_->yield();
  if (node->must_die) throw HostDied{};
}

/// What others do about a change, they may do before this host does anything more.
void World::after_change(Node* node) {
  if (running_ == nullptr || is_at_rest_) return;
  if (random_() % 3 == 0) {
    node->paused_until = turn_ + pick(random_, 20, 400);
    running_->yield();
  }
  before_access(node);
}

Bytes World::new_bytes() {
  Bytes bytes(pick(random_, 9, 2 * kExtentBytes + 20));
  ++nonce_;
  for (std::size_t i = 0; i < bytes.size(); ++i) {
    bytes[i] = static_cast<std::byte>((nonce_ * 0x9E3779B97F4A7C15U + i * 0x5851F42DU) >> 24);
  }
  std::memcpy(bytes.data(), &nonce_, sizeof(nonce_));
  return bytes;
}

/// False if the host is fenced: it ends. What else a call returned is the caller's to judge.
bool World::holds(Node* node, Status status) {
  history_.check(status != Status::kCorrupt, "a checksum failed");
  if (status == Status::kFenced) node->host.reset();
  return node->host != nullptr;
}

void World::publish(Node* node) {
  const ObjectKey key{pick(random_, 1, kKeys), 0};
  const Bytes bytes = new_bytes();
  history_.will_publish(key, bytes);
  ObjectId id;
  const Status status = node->host->publish(key, bytes, &id);
  if (status == Status::kOk) {
    history_.published(id, key, bytes);
    node->own.push_back(id);
    ++coverage_.published;
    if (id.number > region_.log_entries()) ++coverage_.log_rounds;
  }
  if (!holds(node, status)) return;
}

void World::publish_mutable(Node* node) {
  if (mutables_.size() >= 2) return;
  const ObjectKey key{100 + mutables_.size(), 0};
  const Bytes bytes = new_bytes();
  history_.will_publish(key, bytes);
  ObjectId id;
  const Status status = node->host->publish_mutable(key, bytes, &id);
  if (status == Status::kOk) {
    history_.written(id, 1, bytes);
    mutables_.emplace_back(id, key);
  }
  if (!holds(node, status)) return;
}

void World::read(Node* node) {
  const ObjectKey key{pick(random_, 1, kKeys), 0};
  Pin pin;
  const Status status = node->host->pin(key, &pin);
  if (status == Status::kOk) node->pins.emplace_back(pin, false);
  if (!holds(node, status)) return;
  if (node->pins.size() > 4) {
    node->host->unpin(node->pins.front().first);
    node->pins.erase(node->pins.begin());
  }
}

void World::read_pinned(Node* node) {
  if (node->pins.empty()) return;
  const std::size_t index = random_() % node->pins.size();
  const Pin pin = node->pins[index].first;
  Bytes bytes(pin.object.length);
  const Status status = node->host->read(pin, bytes);
  if (status == Status::kOk) {
    history_.read({pin.object.key_low, pin.object.key_high}, id_of(pin.object), pin.object.version,
                  bytes);
    ++coverage_.read;
    if (node->pins[index].second) ++coverage_.reads_under_lease;
    node->pins[index].second = true;
  }
  if (!holds(node, status)) return;
  if (random_() % 2 == 0) {
    node->host->unpin(pin);
    node->pins.erase(node->pins.begin() + static_cast<std::ptrdiff_t>(index));
  }
}

void World::remove(Node* node) {
  if (node->own.empty() || random_() % 2 == 0) return;
  const std::size_t index = random_() % node->own.size();
  const ObjectId id = node->own[index];
  history_.will_remove(id);
  const Status status = node->host->remove(id);
  if (status == Status::kOk) {
    ++coverage_.removed;
    node->own.erase(node->own.begin() + static_cast<std::ptrdiff_t>(index));
  }
  if (!holds(node, status)) return;
}

void World::write(Node* node) {
  if (mutables_.empty()) return;
  const auto [id, key] = mutables_[random_() % mutables_.size()];
  if (!node->writing.contains(id)) {
    if (random_() % 4 != 0) return;
    const Bytes bytes = new_bytes();
    node->writing.emplace(id, bytes);
  }
  go_on_writing(node, id, key);
}

void World::go_on_writing(Node* node, const ObjectId& id, const ObjectKey& key) {
  const Bytes bytes = node->writing.at(id);
  if (node->sent.contains(id)) {
    const Status status = node->host->finish_write(id);
    if (status == Status::kNotYet) return;
    if (status == Status::kOk) {
      history_.written(id, node->sent_version[id], bytes);
      ++coverage_.written;
    }
    node->sent.erase(id);
    node->writing.erase(id);
    return;
  }
  Status status = node->host->acquire_write(id, static_cast<std::uint32_t>(bytes.size()));
  if (!holds(node, status) || status != Status::kOk) return;
  history_.will_write(key, bytes);
  std::uint32_t version = 0;
  status = node->host->write_next(id, bytes, &version);
  if (status == Status::kOk) {
    node->sent.insert(id);
    node->sent_version[id] = version;
  }
  if (!holds(node, status)) return;
}

void World::read_coherently(Node* node) {
  if (mutables_.empty()) return;
  const auto [id, key] = mutables_[random_() % mutables_.size()];
  if (node->writing.contains(id)) return;
  const std::uint32_t newest = history_.newest(id);
  Status status = node->host->acquire_read(id);
  if (!holds(node, status) || status != Status::kOk) return;
  Bytes bytes;
  std::uint32_t version = 0;
  status = node->host->read_current(id, &bytes, &version);
  if (status == Status::kOk) {
    history_.check(version >= newest, "a read returned what a finished write had replaced");
    history_.read(key, id, version, bytes);
    ++coverage_.coherent_reads;
  }
  if (!holds(node, status)) return;
}

void World::act(std::uint16_t self) {
  Node& node = nodes_[self];
  switch (random_() % 16) {
    case 0:
    case 1:
      return publish(&node);
    case 2:
    case 3:
      return read(&node);
    case 4:
    case 5:
    case 6:
      return read_pinned(&node);
    case 7:
      return remove(&node);
    case 8:
      return write(&node);
    case 9:
    case 10:
      return random_() % 8 == 0 ? publish_mutable(&node) : read_coherently(&node);
    case 11: {
      if (!node.host->has_orphans()) return;
      const Status status = node.host->adopt();
      if (status == Status::kOk) ++coverage_.adopted;
      if (!holds(&node, status)) return;
      return;
    }
    default: {
      const std::uint32_t before = node.host->space().free_extents();
      if (!holds(&node, node.host->poll())) return;
      const std::uint16_t lender = static_cast<std::uint16_t>((self + 1) % nodes_.size());
      if (node.host->space().free_debt(lender) > 0 && node.host->space().free_extents() > before) {
        ++coverage_.borrowed;
      }
      return;
    }
  }
}

void World::live(std::uint16_t self) {
  Node& node = nodes_[self];
  try {
    if (SharingHost::join(*node.memory, *node.membership, self, &node.host) != Status::kOk) {
      node.host.reset();
      return;
    }
    node.host->set_borrow_limits({2, 1, 4});
    while (!is_at_rest_ && node.host != nullptr) act(self);
  } catch (const HostDied&) {
    node.host.reset();
  }
}

void World::kill(Node* node, bool loses_power) {
  if (node->fiber != nullptr) {
    node->must_die = true;
    running_ = node->fiber.get();
    node->fiber->resume();
    running_ = nullptr;
    node->must_die = false;
  }
  node->fiber.reset();
  if (loses_power) {
    node->cache->lose_power();
    node->has_power = false;
  }
}

void World::misfortune() {
  const auto self = static_cast<std::uint16_t>(random_() % nodes_.size());
  Node& node = nodes_[self];
  switch (random_() % 8) {
    case 0:
      if (node.fiber == nullptr) return;
      ++coverage_.power_losses;
      return kill(&node, true);
    case 1:
      if (node.fiber == nullptr) return;
      ++coverage_.process_crashes;
      return kill(&node, false);
    case 2:
      node.paused_until = turn_ + pick(random_, 20, 400);
      return;
    case 3:
      if (node.fiber != nullptr && random_() % 2 == 0) return;
      [[fallthrough]];
    case 4:
    case 5:
      if (node.fiber != nullptr && turn_ >= node.paused_until && random_() % 4 != 0) return;
      if (oracle_.change([&](MembershipView* view) { return transition::fence(view, self); }) ==
              Status::kOk &&
          node.fiber != nullptr) {
        ++coverage_.fenced_alive;
      }
      return;
    default:
      // Somebody has seen that the machine is off.
      if (node.has_power || oracle_.now().hosts[self].is_live) return;
      (void)oracle_.change([&](MembershipView* view) {
        return transition::declare_quiet(view, self, view->hosts[self].epoch);
      });
  }
}

/// The first host makes the region; the others find it, although they have looked before.
bool World::make_region() {
  for (Node& node : nodes_) {
    node.cache->set_calm(true);
    if (Region::open(*node.memory, &region_) != Status::kBadPool) return false;
  }
  const RegionShape shape = shape_of(static_cast<std::uint16_t>(nodes_.size()));
  bool is_made = Region::create(*nodes_[0].memory, shape, &region_) == Status::kOk;
  for (std::size_t i = 1; i < nodes_.size(); ++i) {
    is_made = is_made && Region::open(*nodes_[i].memory, &region_) == Status::kOk;
  }
  for (Node& node : nodes_) node.cache->set_calm(false);
  return is_made;
}

std::string World::run() {
  if (!make_region()) return "no region";
  for (turn_ = 0; turn_ < turns_ && history_.wrongs().empty(); ++turn_) {
    const auto self = static_cast<std::uint16_t>(random_() % nodes_.size());
    Node& node = nodes_[self];
    if (random_() % misfortune_one_in_ == 0) misfortune();
    if (node.fiber != nullptr && turn_ < node.paused_until) {
      node.cache->stir();
      continue;
    }
    if (node.fiber == nullptr) {
      node.cache->stir();
      if (random_() % 30 != 0) continue;
      if (!node.has_power) node.has_power = true;
      node.pins.clear();
      node.writing.clear();
      node.sent.clear();
      node.fiber = std::make_unique<Fiber>([this, self] { live(self); });
    }
    running_ = node.fiber.get();
    node.fiber->resume();
    running_ = nullptr;
    if (node.fiber->has_ended()) node.fiber.reset();
  }
  come_to_rest();
  if (history_.wrongs().empty()) examine();
  for (Node& node : nodes_) {
    if (node.fiber != nullptr) kill(&node, false);
  }
  return history_.wrongs().empty() ? std::string() : history_.wrongs().front();
}

bool World::has_come_to_rest() const {
  std::uint32_t extents = 0;
  for (const Node& node : nodes_) {
    if (node.host == nullptr || !node.host->is_ready() || !node.writing.empty()) return false;
    extents += node.host->space().free_extents();
    for (const auto& [id, object] : node.host->objects()) {
      extents += region_.extents_for(object.length);
    }
  }
  return extents == region_.extents();
}

void World::come_to_rest() {
  is_at_rest_ = true;
  for (Node& node : nodes_) {
    node.cache->set_calm(true);
    node.membership->set_calm(true);
    if (node.fiber == nullptr) continue;
    running_ = node.fiber.get();
    node.fiber->resume();
    running_ = nullptr;
    node.fiber.reset();
  }
  for (std::uint32_t round = 0; round < kRounds && history_.wrongs().empty(); ++round) {
    if (round > kFewestRounds && has_come_to_rest()) break;
    for (std::uint16_t self = 0; self < region_.hosts(); ++self) {
      Node& node = nodes_[self];
      if (node.host == nullptr) {
        (void)oracle_.change([&](MembershipView* view) { return transition::fence(view, self); });
        const Status status = SharingHost::join(*node.memory, *node.membership, self, &node.host);
        node.pins.clear();
        node.writing.clear();
        node.sent.clear();
        if (status != Status::kOk) node.host.reset();
        continue;
      }
      for (const auto& [id, key] : mutables_) {
        if (node.host != nullptr && node.writing.contains(id)) go_on_writing(&node, id, key);
      }
      if (node.host == nullptr) continue;
      for (const auto& [pin, was_read] : node.pins) node.host->unpin(pin);
      node.pins.clear();
      if (node.host->has_orphans() && node.host->is_ready()) {
        if (!holds(&node, node.host->adopt())) continue;
      }
      (void)holds(&node, node.host->poll());
    }
  }
}

void World::examine_coherent_reads(const ObjectId& id, const ObjectKey& key, std::uint32_t newest) {
  for (Node& node : nodes_) {
    // One that waits for space to write cannot read meanwhile.
    if (node.writing.contains(id)) continue;
    Status status = Status::kNotYet;
    for (std::uint32_t round = 0; round < kRounds && status == Status::kNotYet; ++round) {
      status = node.host->acquire_read(id);
      for (Node& each : nodes_) (void)each.host->poll();
    }
    history_.check(status == Status::kOk, "a right to read was not granted");
    Bytes bytes;
    std::uint32_t version = 0;
    if (status != Status::kOk || node.host->read_current(id, &bytes, &version) != Status::kOk) {
      return history_.check(false, "a mutable object cannot be read");
    }
    history_.check(version == newest, "a coherent read is not the newest version");
    history_.read(key, id, version, bytes);
  }
}

void World::examine() {
  std::uint32_t used = 0;
  std::uint32_t free = 0;
  std::map<ObjectId, nkv_share_entry> present;
  for (Node& node : nodes_) {
    history_.check(node.host != nullptr && node.host->is_ready(), "a host did not become ready");
    if (node.host == nullptr || !node.host->is_ready()) return;
    free += node.host->space().free_extents();
    for (const auto& [id, object] : node.host->objects()) {
      history_.check(present.emplace(id, object).second, "two hosts own one object");
      used += region_.extents_for(object.length);
    }
  }
  history_.check(used + free >= region_.extents(), "space was lost");
  history_.check(used + free <= region_.extents(), "space is owned twice");
  for (const auto& [id, key] : history_.lasting()) {
    history_.check(present.contains(id), "a published object was lost");
  }
  for (const auto& [id, key] : mutables_) {
    if (present.contains(id)) examine_coherent_reads(id, key, present.at(id).version);
  }
  for (Node& node : nodes_) {
    for (const auto& [id, object] : present) {
      Pin pin;
      const Status found = node.host->pin(id, &pin);
      history_.check(found == Status::kOk, "a published object is not seen by all");
      if (found != Status::kOk) return;
      Bytes bytes(pin.object.length);
      history_.check(node.host->read(pin, bytes) == Status::kOk, "an object cannot be read");
      history_.read({object.key_low, object.key_high}, id, object.version, bytes);
      node.host->unpin(pin);
    }
  }
}

}  // namespace nearkv::test
