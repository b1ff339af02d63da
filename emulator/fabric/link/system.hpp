// Hosts, cards and what lies between them: when accesses to the cards' memory are answered.
#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <optional>
#include <queue>
#include <string>
#include <vector>

#include "fabric/dram/dram.hpp"
#include "fabric/link/flits.hpp"

namespace nearkv::fabric {

/// Of the way between a core and memory, each time one way.
struct HostShape {
  Picoseconds path = 0;      ///< Core to memory controller or root complex: caches, mesh.
  Picoseconds bridge = 0;    ///< Root complex to CXL's link layer.
  Picoseconds protocol = 0;  ///< That layer.
};

struct MemoryShape {
  std::string timing = "ddr5";  ///< dram::find_timing()
  unsigned latency_cycles = 0;  ///< dram::Dram
  unsigned port_lines = 1;      ///< A cycle.
  Picoseconds cycle = 2500;     ///< Longer: the same DRAM, slower.
};

struct CardShape {
  Picoseconds protocol = 0;  ///< Link to memory controller, each way.
  unsigned credits = 48;     ///< Of each host: messages that it holds, from arrival to answer.
  MemoryShape memory;
};

struct SwitchShape {
  Picoseconds port = 0;  ///< From a port to another.
};

/// Without a link memory is the host's own, and there is one host. Without a switch each host has
/// a link to each card; with one, each host and each card has one to the switch.
struct Shape {
  unsigned hosts = 1;
  unsigned cards = 1;
  std::uint64_t interleave_bytes = 256;  ///< Of addresses over cards.
  HostShape host;
  CardShape card;
  std::optional<LinkShape> link;
  std::optional<SwitchShape> fabric_switch;
};

/// Deterministic. Time goes on in cycles of the cards' memory, all alike; links know picoseconds.
class System {
 public:
  using Told = std::function<void(Picoseconds at)>;

  struct Access {
    unsigned host = 0;
    std::uint64_t address = 0;  ///< Of a 64-byte line.
    bool is_write = false;
    Told at_card{};  ///< It has reached the card, before its memory. May be none.
    Told done{};     ///< The host has the answer.
  };

  explicit System(const Shape& shape);

  /// Comes from a core at now() or later; not before another of this host that was submitted.
  void submit(Access access, Picoseconds at);

  [[nodiscard]] Picoseconds now() const { return now_; }
  /// One cycle. What is told may submit more.
  void advance();

 private:
  struct Event {
    Picoseconds at;
    std::uint64_t order;
    std::function<void()> run;
    friend bool operator>(const Event& left, const Event& right) {
      return left.at != right.at ? left.at > right.at : left.order > right.order;
    }
  };
  struct Link {
    explicit Link(const LinkShape& shape) : down(shape), up(shape) {}
    LinkDirection down;
    LinkDirection up;
  };
  /// A host's way to a card: messages wait for room there.
  struct Way {
    unsigned credits;
    std::deque<std::uint64_t> waiting;  // Tokens.
  };
  struct Card {
    dram::Dram memory;
    std::deque<std::uint64_t> queue;  // Tokens that the memory has not taken yet.
  };

  void schedule(Picoseconds at, std::function<void()> run);
  [[nodiscard]] unsigned card_of(const Access& access) const;
  [[nodiscard]] std::uint64_t card_address(const Access& access) const;
  Way& way(unsigned host, unsigned card) { return ways_[host * shape_.cards + card]; }
  /// To the card, or to the switch.
  Link& host_link(unsigned host, unsigned card);

  void reach_link(std::uint64_t token);
  void send(unsigned host, unsigned card);
  void reach_card(std::uint64_t token);
  void feed(unsigned card);
  void give_back(unsigned host, unsigned card);
  void answer(std::uint64_t token);

  const Shape shape_;
  const dram::Timing& timing_;
  Picoseconds now_ = 0;
  std::uint64_t order_ = 0;
  std::priority_queue<Event, std::vector<Event>, std::greater<>> events_;
  std::vector<Access> accesses_;  // By token.
  std::vector<std::uint64_t> free_tokens_;
  std::vector<Link> host_links_;  // Of a switch; else of each way.
  std::vector<Link> card_links_;
  std::vector<Way> ways_;
  std::vector<Card> cards_;
};

}  // namespace nearkv::fabric
