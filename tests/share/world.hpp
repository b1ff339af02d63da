// Several hosts, their caches and one shared memory, in one random order of all that they do.
#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "share/fabric_memory.hpp"
#include "share/fiber.hpp"
#include "share/history.hpp"
#include "share/membership_oracle.hpp"
#include "share/sharing_host.hpp"
#include "support/seed.hpp"

namespace nearkv::test {

/// What a schedule has seen, to know that it saw something.
struct Coverage {
  std::uint64_t published = 0;
  std::uint64_t read = 0;
  std::uint64_t removed = 0;
  std::uint64_t written = 0;
  std::uint64_t coherent_reads = 0;
  std::uint64_t power_losses = 0;
  std::uint64_t process_crashes = 0;
  std::uint64_t fenced_alive = 0;
  std::uint64_t adopted = 0;
  std::uint64_t borrowed = 0;
  std::uint64_t reads_under_lease = 0;
  std::uint64_t log_rounds = 0;  ///< Publications beyond the first round of a log's ring.

  Coverage& operator+=(const Coverage& other);
};

struct WorldOptions {
  std::uint16_t hosts = 3;
  std::uint32_t turns = 2500;
  std::optional<Omission> omission{};
};

class World {
 public:
  World(const WorldOptions& options, std::uint64_t schedule);

  /// Runs the schedule, lets everything come to rest and looks at what is left. The first thing
  /// that went wrong, or an empty text.
  std::string run();

  [[nodiscard]] const Coverage& coverage() const { return coverage_; }

 private:
  struct Node {
    std::unique_ptr<fabric::HostCache> cache;
    std::unique_ptr<FabricMemory> memory;
    std::unique_ptr<OracleMembership> membership;
    std::unique_ptr<SharingHost> host;
    std::unique_ptr<Fiber> fiber;
    bool must_die = false;
    bool has_power = true;  ///< Else nothing of it can reach memory.
    std::uint32_t paused_until = 0;
    std::vector<std::pair<Pin, bool>> pins;  ///< And whether it has been read before.
    std::vector<ObjectId> own;               ///< Perhaps removed already.
    std::map<ObjectId, Bytes> writing;       ///< Mutable objects, and what is being written.
    std::set<ObjectId> sent;                 ///< Of those, written and not answered.
    std::map<ObjectId, std::uint32_t> sent_version;
  };

  void before_access(Node* node);
  void after_change(Node* node);
  void live(std::uint16_t self);
  void act(std::uint16_t self);
  void publish(Node* node);
  void publish_mutable(Node* node);
  void read(Node* node);
  void read_pinned(Node* node);
  void remove(Node* node);
  void write(Node* node);
  void go_on_writing(Node* node, const ObjectId& id, const ObjectKey& key);
  void read_coherently(Node* node);
  [[nodiscard]] bool holds(Node* node, Status status);
  void misfortune();
  void kill(Node* node, bool loses_power);
  [[nodiscard]] Bytes new_bytes();

  [[nodiscard]] bool make_region();
  [[nodiscard]] bool has_come_to_rest() const;
  void come_to_rest();
  void examine();
  void examine_coherent_reads(const ObjectId& id, const ObjectKey& key, std::uint32_t newest);

  Random random_;
  fabric::Fabric fabric_;
  Region region_;
  MembershipOracle oracle_;
  std::unique_ptr<RecordMap> records_;
  std::vector<Node> nodes_;
  Fiber* running_ = nullptr;
  std::uint32_t turn_ = 0;
  std::uint32_t turns_ = 0;
  std::uint32_t misfortune_one_in_ = 0;  ///< Turns.
  bool is_at_rest_ = false;
  std::uint64_t nonce_ = 0;
  std::vector<std::pair<ObjectId, ObjectKey>> mutables_;
  History history_;
  Coverage coverage_;
};

}  // namespace nearkv::test
