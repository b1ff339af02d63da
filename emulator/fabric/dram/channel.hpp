// One channel's controller: queues of reads and writes, and the order in which they reach the
// banks.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <vector>

#include "fabric/dram/banks.hpp"
#include "fabric/dram/place.hpp"

namespace nearkv::dram {

/// What a channel did so far.
struct Counts {
  std::uint64_t hits = 0;       ///< Lines whose row was open;
  std::uint64_t misses = 0;     ///< whose bank was closed;
  std::uint64_t conflicts = 0;  ///< whose bank had another row open.
  std::uint64_t forwards = 0;   ///< Reads answered by a write that waits; writes that replace one.
  std::uint64_t refreshes = 0;
};

/// Row hits first, then the oldest (FR-FCFS); rows stay open. Reads and writes take turns. The
/// oldest request gets its bank to itself after kStarved clocks. A refresh takes its banks as soon
/// as it is due.
class Channel {
 public:
  static constexpr std::size_t kQueued = 64;  ///< Reads; writes.
  /// Writes want their turn when there are many, or some and no reads. Both sides' turns end after
  /// kBatch lines if the other one wants; that of writes also when few are left and reads wait, or
  /// none are left. So some writes may wait for ever.
  static constexpr std::size_t kManyWrites = 48;
  static constexpr std::size_t kSomeWrites = 32;
  static constexpr std::size_t kFewWrites = 16;
  static constexpr unsigned kBatch = 32;
  static constexpr std::uint64_t kStarved = 4096;

  explicit Channel(const Timing& timing);

  [[nodiscard]] bool takes_reads() const { return reads_.size() < kQueued; }
  [[nodiscard]] bool takes_writes() const { return writes_.size() < kQueued; }
  /// The token comes back in Done; false: a write that waits holds the data, and nothing comes.
  [[nodiscard]] bool read(std::uint64_t token, const Place& place);
  void write(const Place& place);

  struct Done {
    std::uint64_t token;
    std::uint64_t clock;  ///< Of the last data, maybe to come.
  };
  /// Runs one clock; a read whose last column command it issued.
  std::optional<Done> advance();

  [[nodiscard]] std::uint64_t now() const { return now_; }
  [[nodiscard]] const Counts& counts() const { return counts_; }
  /// Every command from now on goes there too.
  void set_log(std::vector<Command>* log) { log_ = log; }

 private:
  enum class Cause : std::uint8_t { kHit, kMiss, kConflict };
  struct Request {
    std::uint64_t token;
    Place place;
    std::uint64_t arrived;
    unsigned columns;  // Left.
    Cause cause = Cause::kHit;
  };
  /// The best commands of this clock, by request; none: kNone.
  struct Choice {
    std::size_t column = kNone;
    std::size_t activate = kNone;
    std::size_t precharge = kNone;
  };
  static constexpr std::size_t kNone = ~std::size_t{0};
  static constexpr unsigned kMostBanks = 64;

  [[nodiscard]] std::vector<Request>& queue() { return writes_turn_ ? writes_ : reads_; }
  void take_turns();
  void refresh();
  [[nodiscard]] bool is_refreshing(unsigned bank) const;
  [[nodiscard]] Choice choose();
  /// Whether the command may be issued now; if not, wakes when it may.
  [[nodiscard]] bool is_due(Operation operation, unsigned bank);
  void issue(Operation operation, unsigned bank, std::uint64_t row);
  std::optional<Done> issue_column(std::size_t index);
  void issue_row(const Choice& choice);
  void count(Cause cause);

  const Timing& timing_;
  Banks banks_;
  std::vector<Request> reads_;  // From the oldest.
  std::vector<Request> writes_;
  bool writes_turn_ = false;
  unsigned turn_lines_ = 0;
  std::uint64_t now_ = 0;
  std::uint64_t wake_ = 0;  // Nothing can be issued before.
  std::uint64_t refresh_at_;
  unsigned refresh_slice_ = 0;
  Counts counts_;
  std::vector<Command>* log_ = nullptr;
};

}  // namespace nearkv::dram
