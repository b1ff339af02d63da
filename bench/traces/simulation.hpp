// A cluster under a workload, from the first arrival to the last token.
#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "cluster.hpp"
#include "event_queue.hpp"
#include "metrics.hpp"
#include "replica.hpp"
#include "tiers.hpp"
#include "workload.hpp"

namespace nearkv::traces {

/// Discrete events: arrivals, ends of steps, loads that arrive. Where some replicas only prefill,
/// a request's first token comes from one of them, and when its KV has been written to the tiers,
/// another one loads it and decodes. What a replica had under way when it failed goes on at another
/// one, which computes the prompt and what was generated again, or finds it in a shared tier. The
/// same cluster and workload give the same report.
///
/// Thread safety: one thread at a time.
class Simulation {
 public:
  /// `workload` must outlive it. `device_s_per_token` as StepCost's. kBadArgument with a reason.
  static Status open(const Cluster& cluster, double device_s_per_token, Workload* workload,
                     std::unique_ptr<Simulation>* simulation, std::string* reason);

  /// Runs to the end. kPoolFull or kBadArgument, with a reason that names the request and the mend,
  /// when one comes that its replica could never serve, or that could not go on.
  Status run(std::string* reason);

  [[nodiscard]] Report report() const;
  [[nodiscard]] const std::vector<Served>& served() const { return metrics_.served(); }

 private:
  enum class Kind : std::uint8_t { kArrival, kStep, kLoaded, kHandOver, kFail, kRepair };
  struct Event {
    Kind kind;
    bool is_stream = false;  ///< An arrival that came of itself: the next one follows.
    std::uint32_t replica = 0;
    std::uint32_t request = 0;
    std::uint32_t blocks = 0;
    std::uint32_t life = 0;  ///< Of the replica, whose failures make what it did void.
  };
  /// What stands, and the part of the cluster that it is.
  struct Place {
    std::unique_ptr<Replica> replica{};
    std::uint32_t life = 0;
    std::uint32_t failures = 0;  ///< That it has not been repaired from.
  };
  /// A request that waits for any replica of its kind to come back.
  struct Stranded {
    scheduler::Request request{};
    bool prefills = false;
  };
  /// A request on its way through the cluster; its index is its tag in schedulers.
  struct Flight {
    std::uint64_t tag = 0;
    Served served{};
    bool has_first_token = false;
    bool decodes_elsewhere = false;  ///< Another replica will: it has not begun to.
    bool is_handed_over = false;     ///< It may have begun.
    Seconds last_token_s = -1;       ///< Negative: there was none; kept if a TBT is promised.
    scheduler::Request decodes{};    ///< What is then left.
  };

  Simulation(const Cluster& cluster, Workload* workload);

  void plan_next_arrival();
  void plan(Arrival arrival, bool is_stream);
  Status arrive(Seconds now_s, Arrival arrival, std::string* reason);
  Status send(Seconds now_s, scheduler::Request request, bool prefills, std::string* reason);
  [[nodiscard]] std::optional<std::uint32_t> choose(bool prefills);
  void wake(Seconds now_s, std::uint32_t replica);
  Status open_replica(std::uint32_t index, std::string* reason);
  Status fail(Seconds now_s, std::uint32_t replica, std::string* reason);
  Status repair(Seconds now_s, std::uint32_t replica, std::string* reason);
  Status end(Seconds now_s, std::uint32_t replica, const scheduler::Ended& ended,
             std::string* reason);
  Status hand_over(Seconds now_s, std::uint32_t flight, std::string* reason);
  [[nodiscard]] bool tells_first_token(const Flight& flight) const;
  void note_tokens(Seconds now_s, const Replica& replica);
  std::uint32_t new_flight();

  Cluster cluster_;
  Workload* workload_;
  Metrics metrics_;
  EventQueue<Event> events_;
  std::vector<std::shared_ptr<Tier>> tiers_;  ///< All, for the report.
  double device_s_per_token_ = 0;
  std::vector<std::shared_ptr<Tier>> shared_tiers_;  ///< By the cluster's tiers; none where own.
  std::vector<Place> places_;
  std::vector<std::unique_ptr<Replica>> failed_;  ///< For the report.
  std::vector<Stranded> stranded_;
  std::vector<Arrival> arrivals_;  ///< That are planned, by index; free ones are listed.
  std::vector<std::uint32_t> free_arrivals_;
  std::vector<Flight> flights_;
  std::vector<std::uint32_t> free_flights_;
  std::vector<LoadUnderWay> loads_;
  std::vector<scheduler::Ended> ended_;
  std::uint64_t in_flight_ = 0;
  std::uint64_t turn_ = 0;
  std::uint64_t preemptions_ = 0;
};

}  // namespace nearkv::traces
