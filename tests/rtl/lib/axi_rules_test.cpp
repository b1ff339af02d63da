// nkv_axi_rules: traffic that keeps AXI4's rules passes, and each way to break one is told by its
// name.
#include <gtest/gtest.h>

#include <array>
#include <deque>
#include <functional>
#include <string>

#include "Vnkv_axi_rules.h"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

constexpr unsigned kIds = 4;
constexpr unsigned kBeatBytes = 64;

/// A port under the rules, whose failures are counted, where they end every other simulation.
class Port : public Simulation<Vnkv_axi_rules> {
 public:
  Port() {
    (*this)->contextp()->errorLimit(1000);
    reset();
  }

  int failures() { return (*this)->contextp()->errorCount(); }

  /// One cycle, after which no channel offers anything.
  void cycle() {
    tick();
    (*this)->ar_valid_i = (*this)->r_valid_i = (*this)->aw_valid_i = 0;
    (*this)->w_valid_i = (*this)->b_valid_i = 0;
  }

  void ready() {
    (*this)->ar_ready_i = (*this)->r_ready_i = (*this)->aw_ready_i = 1;
    (*this)->w_ready_i = (*this)->b_ready_i = 1;
  }

  void ask(unsigned id, std::uint64_t address, unsigned beats) {
    (*this)->ar_valid_i = 1;
    (*this)->ar_id_i = static_cast<std::uint8_t>(id);
    (*this)->ar_addr_i = address;
    (*this)->ar_len_i = static_cast<std::uint8_t>(beats - 1);
  }
  void answer(unsigned id, bool last) {
    (*this)->r_valid_i = 1;
    (*this)->r_id_i = static_cast<std::uint8_t>(id);
    (*this)->r_last_i = last;
  }
  void write(unsigned id, std::uint64_t address, unsigned beats) {
    (*this)->aw_valid_i = 1;
    (*this)->aw_id_i = static_cast<std::uint8_t>(id);
    (*this)->aw_addr_i = address;
    (*this)->aw_len_i = static_cast<std::uint8_t>(beats - 1);
  }
  void data(bool last) {
    (*this)->w_valid_i = 1;
    (*this)->w_last_i = last;
  }
  void settle_write(unsigned id) {
    (*this)->b_valid_i = 1;
    (*this)->b_id_i = static_cast<std::uint8_t>(id);
  }
};

TEST(AxiRulesTest, TrafficThatKeepsThemPasses) {
  for (const unsigned pace : kPaces) {
    test::Random random = test::case_random(pace);
    Port port;
    std::array<std::deque<unsigned>, kIds> reads;  // Beats left of each.
    std::deque<unsigned> lengths, counts;  // Of writes: by addresses; by data, which may lead.
    std::deque<unsigned> ids;
    unsigned sent = 0;
    unsigned length = 1;
    unsigned whole = 0;
    unsigned answered = 0;
    unsigned settled = 0;
    bool asks = false;
    bool answers = false;
    bool writes = false;
    bool sends = false;
    for (unsigned i = 0; i < 4000; ++i) {
      if (!asks && is_willing(random, pace)) {
        asks = true;
        const unsigned beats = test::pick(random, 1, 16);
        port.ask(test::pick(random, 0, kIds - 1), kBeatBytes * test::pick(random, 0, 64 - beats),
                 beats);
      }
      const unsigned id = answers ? port->r_id_i : test::pick(random, 0, kIds - 1);
      if (!answers && !reads[id].empty() && is_willing(random, pace)) {
        answers = true;
        port.answer(id, reads[id].front() == 1);
      }
      if (!writes && is_willing(random, pace)) {
        writes = true;
        // Data that have come say how long it is.
        const unsigned beats = lengths.size() < counts.size() ? counts[lengths.size()] : length;
        port.write(test::pick(random, 0, kIds - 1), 4096 - kBeatBytes * beats, beats);
      }
      if (!sends && is_willing(random, pace)) {
        if (sent == 0) {
          length =
              counts.size() < lengths.size() ? lengths[counts.size()] : test::pick(random, 1, 4);
          if (writes && counts.size() == lengths.size()) length = port->aw_len_i + 1;
        }
        sends = true;
        port.data(++sent == length);
      }
      port->ar_valid_i = asks;
      port->r_valid_i = answers;
      port->aw_valid_i = writes;
      port->w_valid_i = sends;
      const bool settles = whole > 0 && !ids.empty();
      if (settles) port.settle_write(ids.front());
      port->ar_ready_i = is_willing(random, pace);
      port->r_ready_i = is_willing(random, pace);
      port->aw_ready_i = is_willing(random, pace);
      port->w_ready_i = is_willing(random, pace);
      port->b_ready_i = 1;
      const unsigned asked = port->ar_id_i;
      const unsigned beats = port->ar_len_i + 1;
      port.cycle();
      if (settles) {
        ids.pop_front();
        --whole;
        ++settled;
      }
      if (answers && port->r_ready_i) {
        answers = false;
        ++answered;
        if (--reads[id].front() == 0) reads[id].pop_front();
      }
      if (asks && port->ar_ready_i) {
        asks = false;
        reads[asked].push_back(beats);
      }
      if (writes && port->aw_ready_i) {
        writes = false;
        ids.push_back(port->aw_id_i);
        lengths.push_back(port->aw_len_i + 1);
      }
      if (sends && port->w_ready_i) {
        sends = false;
        if (port->w_last_i) {
          counts.push_back(sent);
          sent = 0;
          ++whole;
        }
      }
      while (!lengths.empty() && !counts.empty()) {
        lengths.pop_front();
        counts.pop_front();
      }
    }
    EXPECT_EQ(port.failures(), 0);
    EXPECT_GT(answered, 50U);
    EXPECT_GT(settled, 50U);
  }
}

struct Violation {
  const char* rule;
  std::function<void(Port&)> commit;
};

TEST(AxiRulesTest, EachViolationIsToldByItsRule) {
  const Violation violations[] = {
      {"ArStays_A", [](Port& port) { port.ask(0, 0, 1), port.cycle(), port.cycle(); }},
      {"ArStays_A",
       [](Port& port) { port.ask(0, 0, 1), port.cycle(), port.ask(0, 64, 1), port.cycle(); }},
      {"AwStays_A", [](Port& port) { port.write(0, 0, 1), port.cycle(), port.cycle(); }},
      {"AwStays_A",
       [](Port& port) { port.write(0, 0, 1), port.cycle(), port.write(1, 0, 1), port.cycle(); }},
      {"WStays_A",
       [](Port& port) { port.data(true), port.cycle(), port.data(false), port.cycle(); }},
      {"RStays_A",
       [](Port& port) {
         port->ar_ready_i = 1;
         port.ask(0, 0, 1), port.cycle();
         port.answer(0, true), port.cycle(), port.cycle();
       }},
      {"BStays_A",
       [](Port& port) {
         port->aw_ready_i = port->w_ready_i = 1;
         port.write(0, 0, 1), port.data(true), port.cycle();
         port.settle_write(0), port.cycle(), port.cycle();
       }},
      {"ArInPage_A", [](Port& port) { port.ready(), port.ask(0, 4096 - 64, 2), port.cycle(); }},
      {"AwInPage_A", [](Port& port) { port.ready(), port.write(0, 4096 - 128, 3), port.cycle(); }},
      {"RAsked_A",
       [](Port& port) {
         port.ready(), port.ask(0, 0, 1), port.cycle();
         port.answer(1, true), port.cycle();
       }},
      {"RLast_A",
       [](Port& port) {
         port.ready(), port.ask(0, 0, 2), port.cycle();
         port.answer(0, true), port.cycle();
       }},
      {"RLast_A",
       [](Port& port) {
         port.ready(), port.ask(0, 0, 1), port.cycle();
         port.answer(0, false), port.cycle();
       }},
      {"BAsked_A",
       [](Port& port) {
         port.ready(), port.write(0, 0, 1), port.cycle();
         port.settle_write(0), port.cycle();
       }},
      {"BAsked_A",
       [](Port& port) {
         port.ready(), port.write(0, 0, 1), port.data(true), port.cycle();
         port.settle_write(1), port.cycle();
       }},
      {"WLast_A",
       [](Port& port) { port.ready(), port.write(0, 0, 2), port.data(true), port.cycle(); }},
      {"WEnds_A",
       [](Port& port) { port.ready(), port.write(0, 0, 1), port.data(false), port.cycle(); }},
  };
  for (const Violation& violation : violations) {
    SCOPED_TRACE(violation.rule);
    Port port;
    testing::internal::CaptureStdout();
    violation.commit(port);
    const std::string said = testing::internal::GetCapturedStdout();
    EXPECT_EQ(port.failures(), 1) << said;
    EXPECT_NE(said.find(violation.rule), std::string::npos) << said;
  }
}

}  // namespace
}  // namespace nearkv::rtl_test
