// Headers of pages, fetched ahead and judged, against the model's acceptance: valid ones, ones with
// a wrong field, forged ones with right checksums, poison, and places beyond the window.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <cstring>
#include <deque>
#include <map>
#include <span>
#include <tuple>
#include <vector>

#include "Vnkv_page_accept_bench.h"
#include "domain.hpp"
#include "nkv_abi.h"
#include "page.hpp"
#include "simulation.hpp"

namespace nearkv::rtl_test {
namespace {

using model::Verdict;

constexpr std::size_t kWindowBytes = (1 << 20) - 1024;  // Its end is no page's.
constexpr unsigned kAhead = 4;
constexpr std::uint16_t kTenant = 7;
constexpr unsigned kChannels = 128;  // Of this build.

struct Demand {
  bool any_codec = false;
  bool keys = false;
  bool values = false;
  bool raw_keys = false;
  bool alike = false;
  bool any_values = false;
  bool no_codes = false;
  std::uint16_t head_dim = 64;
  std::uint16_t value_dim = 64;
  bool was_verified = false;
};

class PageAcceptTest : public ::testing::Test {
 protected:
  PageAcceptTest() : memory_(kWindowBytes), entries_(kListPages) {
    unit_->domain_window_bytes_i = kWindowBytes;
    unit_->domain_tenant_i = kTenant;
    unit_.reset();
  }

  // A header that the command accepts, unless a page of another command of the same kind is met.
  nkv_page_header any_header() {
    constexpr std::uint8_t kTypes[] = {NKV_DTYPE_BF16, NKV_DTYPE_FP16, NKV_DTYPE_FP8_E4M3,
                                       NKV_DTYPE_FP8_E5M2, NKV_DTYPE_INT8};
    nkv_page_header header{};
    header.magic = NKV_PAGE_MAGIC;
    header.version = NKV_PAGE_VERSION;
    header.state = NKV_PAGE_STATE_CLOSED;
    header.flags = random_() % 2 == 0 ? NKV_PAGE_FLAG_KEY_SCALES : 0;
    if (random_() % 4 == 0) header.flags |= NKV_PAGE_FLAG_CODES;
    header.dtype = kTypes[random_() % std::size(kTypes)];
    const bool is_bf16 = header.dtype == NKV_DTYPE_BF16;
    header.k_form = is_bf16 && random_() % 2 ? NKV_ROW_FORM_DELTA4 : NKV_ROW_FORM_RAW;
    header.v_form = is_bf16 && random_() % 2 ? NKV_ROW_FORM_DELTA4 : NKV_ROW_FORM_RAW;
    if (random_() % 8 == 0) header.v_form = NKV_ROW_FORM_NONE;
    header.head_dim = static_cast<std::uint16_t>(16 * test::pick(random_, 1, 36));
    header.value_dim = static_cast<std::uint16_t>(16 * test::pick(random_, 1, 36));
    if (random_() % 2 == 0) header.head_dim = header.value_dim = 64;
    if (random_() % 16 == 0) header.codec = NKV_CODEC_FP8;
    header.generation = static_cast<std::uint16_t>(random_());
    header.tokens = NKV_PAGE_TOKENS;
    header.k_exponent = static_cast<std::uint8_t>(random_());
    header.v_exponent = static_cast<std::uint8_t>(random_());
    header.nonfinite = random_();
    header.tenant = kTenant;
    header.k_exceptions = static_cast<std::uint8_t>(random_() % (NKV_EXCEPTIONS + 1));
    header.v_exceptions = static_cast<std::uint8_t>(random_() % (NKV_EXCEPTIONS + 1));
    header.sequence_id = random_();
    header.payload_bytes = test::pick(random_, 0, 1 << 16);
    return header;
  }

  // Spoils one byte, with checksums that hold all the same; rarely an unlikely number.
  void forge(nkv_page_header& header) {
    auto* const bytes = reinterpret_cast<std::uint8_t*>(&header);
    if (random_() % 8 == 0) {
      header.codec = NKV_CODEC_FP8;
      header.payload_bytes = ~std::uint32_t{0} - test::pick(random_, 0, 600);
    } else {
      bytes[random_() % sizeof(header)] ^= static_cast<std::uint8_t>(1u << random_() % 8);
    }
    model::seal(header);
  }

  // Lays out pages of all kinds over the window; some entries name places beyond it.
  void lay_out() {
    for (auto& byte : memory_) byte = std::byte{0};
    poisoned_.clear();
    for (unsigned i = 0; i < kListPages; ++i) {
      nkv_page_header header = any_header();
      nkv_page_entry& entry = entries_[i];
      entry = {};
      entry.generation = header.generation;
      entry.k_exponent = header.k_exponent;
      entry.v_exponent = header.v_exponent;
      model::seal(header);
      if (random_() % 4 == 0) forge(header);
      if (random_() % 32 == 0) header.crc_hot ^= 1u << random_() % 32;
      if (random_() % 32 == 0) header.crc_cold ^= 1u << random_() % 32;
      if (random_() % 32 == 0) header.magic = 0;
      if (random_() % 32 == 0) entry.generation ^= 1;
      if (random_() % 32 == 0) entry.v_exponent ^= 1;
      // Each has a slot of 2 KiB, into which no page fits: only headers are looked at.
      entry.page = i * 2048 / NKV_PAGE_GRAIN_BYTES;
      if (random_() % 32 == 0) entry.page = static_cast<std::uint32_t>(random_());
      const std::uint64_t address = std::uint64_t{entry.page} * NKV_PAGE_GRAIN_BYTES;
      if (random_() % 32 == 0) poisoned_[address + 64 * (random_() % 2)] = true;
      if (address + sizeof(header) <= memory_.size()) {
        std::memcpy(&memory_[address], &header, sizeof(header));
      }
    }
  }

  [[nodiscard]] bool is_poisoned(std::uint64_t address) const {
    return poisoned_.contains(address);
  }

  // What the contract says of a page; `first` is the first page that was accepted.
  Verdict expected(unsigned place, const Demand& demand, const model::Page* first,
                   model::Page* page) {
    const nkv_page_entry& entry = entries_[place];
    const std::uint64_t address = std::uint64_t{entry.page} * NKV_PAGE_GRAIN_BYTES;
    const std::uint64_t index = kFirstIndex + place;
    if (address + NKV_PAGE_HEADER_BYTES <= memory_.size() &&
        (is_poisoned(address) || is_poisoned(address + 64))) {
      return {NKV_STATUS_POISON, index};
    }
    const model::Domain domain{model::Window(memory_), kTenant};
    const Verdict accepted =
        model::Page::accept(domain, entry, index, {.any_codec = demand.any_codec}, page);
    if (!accepted.ok()) return accepted;
    const auto stores_values = [](const model::Page& one) {
      return one.header().v_form != NKV_ROW_FORM_NONE;
    };
    if ((demand.keys && page->header().head_dim != demand.head_dim) ||
        (demand.raw_keys && page->key_is_delta4()) ||
        (demand.values && page->header().value_dim != demand.value_dim) ||
        (demand.values && first != nullptr && stores_values(*page) != stores_values(*first))) {
      return {NKV_STATUS_BAD_PAGE, index};
    }
    const auto sizes = [](const model::Page& one) {
      const nkv_page_header& header = one.header();
      return std::tuple(header.dtype, header.head_dim, header.value_dim);
    };
    if ((demand.alike && first != nullptr && sizes(*page) != sizes(*first)) ||
        (demand.any_values && page->header().value_dim == 0)) {
      return {NKV_STATUS_BAD_PAGE, index};
    }
    const bool is_too_wide =
        demand.alike && std::max(page->header().head_dim, page->header().value_dim) > kChannels;
    if (is_too_wide || (demand.no_codes && (page->header().flags & NKV_PAGE_FLAG_CODES) != 0)) {
      return {NKV_STATUS_UNSUPPORTED, index};
    }
    if (demand.was_verified &&
        (page->header().crc_hot ^ page->header().crc_cold) != verified_crc(place)) {
      return {NKV_STATUS_STALE_PAGE, index};
    }
    return {};
  }

  // What was verified is said to have been: now and then another header.
  std::uint32_t verified_crc(unsigned place) {
    nkv_page_header header{};
    const std::uint64_t address = std::uint64_t{entries_[place].page} * NKV_PAGE_GRAIN_BYTES;
    if (address + sizeof(header) > memory_.size()) return 0;
    std::memcpy(&header, &memory_[address], sizeof(header));
    return (header.crc_hot ^ header.crc_cold) + (place % 8 == 3 ? 1 : 0);
  }

  void set_demand(const Demand& demand) {
    unit_->demand_any_codec_i = demand.any_codec;
    unit_->demand_keys_i = demand.keys;
    unit_->demand_values_i = demand.values;
    unit_->demand_raw_keys_i = demand.raw_keys;
    unit_->demand_alike_i = demand.alike;
    unit_->demand_any_values_i = demand.any_values;
    unit_->demand_no_codes_i = demand.no_codes;
    unit_->demand_head_dim_i = demand.head_dim;
    unit_->demand_value_dim_i = demand.value_dim;
    unit_->was_verified_i = demand.was_verified;
    unit_->first_index_i = kFirstIndex;
    unit_->clear_i = 1;
    unit_->visit_valid_i = unit_->beat_valid_i = unit_->record_ready_i = 0;
    unit_.tick();
    unit_->clear_i = 0;
  }

  // One pass over every page of the list.
  void pass(const Demand& demand, unsigned pace, bool serial) {
    lay_out();
    set_demand(demand);
    unit_->serial_i = serial;
    std::deque<std::pair<std::uint64_t, std::uint64_t>> beats;  // Addresses, and when they come.
    std::deque<std::uint64_t> tokens;
    unsigned visited = 0, judged = 0, under_way = 0, looked_up = 0;
    model::Page first;
    bool is_any_accepted = false;
    for (std::uint64_t now = 0; judged < kListPages; ++now) {
      ASSERT_LT(now, 200 * kListPages) << judged << " pages were judged";
      unit_->entry_i = std::bit_cast<std::uint64_t>(entries_[looked_up]);
      unit_->visit_valid_i = visited < kListPages && is_willing(random_, pace);
      unit_->visit_page_i = static_cast<std::uint16_t>(visited);
      unit_->visit_tokens_i = visited * 0x9e3779b97f4a7c15u;
      unit_->request_ready_i = is_willing(random_, pace);
      unit_->record_ready_i = is_willing(random_, pace);
      unit_->beat_valid_i = !beats.empty() && beats.front().second <= now;
      if (unit_->beat_valid_i) show_beat(beats.front().first);
      unit_->verified_crc_i = verified_crc(unit_->verified_page_o);
      unit_->clk_i = 0;
      unit_.settle();
      const bool visits = unit_->visit_valid_i && unit_->visit_ready_o;
      const bool takes = unit_->beat_valid_i && unit_->beat_ready_o;
      looked_up = unit_->page_o;
      if (unit_->request_valid_o && unit_->request_ready_i) {
        // A request beyond the window comes back as one beat.
        const std::uint64_t address = unit_->request_address_o;
        ASSERT_EQ(unit_->request_bursts_o, 2u);
        const bool faults = address + NKV_PAGE_HEADER_BYTES > memory_.size();
        for (unsigned i = 0; i < (faults ? 1 : unit_->request_bursts_o); ++i) {
          beats.emplace_back(address + i * NKV_BURST_BYTES, now + 20);
        }
      }
      bool judges = unit_->record_valid_o && unit_->record_ready_i;
      if (judges) {
        model::Page page;
        const Verdict verdict = expected(judged, demand, is_any_accepted ? &first : nullptr, &page);
        ++seen_[verdict.status];
        expect_record(judged, verdict, page);
        if (HasFatalFailure()) return;
        if (verdict.ok() && !is_any_accepted) first = page;
        is_any_accepted = is_any_accepted || verdict.ok();
      }
      unit_.tick();
      if (takes) beats.pop_front();
      if (visits) ++visited;
      if (judges) ++judged;
      under_way = visited - judged;
      ASSERT_LE(under_way, serial ? 1 : kAhead);
    }
    EXPECT_TRUE(unit_->idle_o);
  }

  unsigned seen(std::uint8_t status) { return seen_[status]; }

 private:
  static constexpr std::uint32_t kFirstIndex = 1000;

  void show_beat(std::uint64_t address) {
    const std::uint64_t page = address / NKV_PAGE_GRAIN_BYTES * NKV_PAGE_GRAIN_BYTES;
    unit_->beat_fault_i = page + NKV_PAGE_HEADER_BYTES > memory_.size();
    unit_->beat_poison_i = !unit_->beat_fault_i && is_poisoned(address);
    if (!unit_->beat_fault_i) {
      std::memcpy(unit_->beat_data_i.data(), &memory_[address], NKV_BURST_BYTES);
    }
  }

  void expect_record(unsigned place, const Verdict& verdict, const model::Page& page) {
    ASSERT_EQ(unit_->record_visit_page_o, place);
    ASSERT_EQ(int{unit_->record_verdict_status_o}, int{verdict.status}) << "page " << place;
    ASSERT_EQ(unit_->record_verdict_detail_o, kFirstIndex + place);
    if (!verdict.ok()) return;
    ASSERT_EQ(unit_->record_visit_tokens_o, place * 0x9e3779b97f4a7c15u);
    ASSERT_EQ(unit_->record_address_o, page.address());
    ASSERT_EQ(unit_->record_total_bytes_o, page.bytes().size());
    const auto header = std::as_bytes(std::span(&page.header(), 1));
    const auto given = std::span(unit_->record_header_o.data(), header.size() / 4);
    ASSERT_TRUE(std::ranges::equal(std::as_bytes(given), header));
    for (unsigned i = 0; i < NKV_PAGE_ARRAY_CODE_SUMMARY; ++i) {
      ASSERT_EQ(unit_->record_offset_o[i], page.layout().offset[i]);
      ASSERT_EQ(unit_->record_bytes_o[i], page.layout().bytes[i]);
    }
  }

  Simulation<Vnkv_page_accept_bench> unit_;
  test::Random random_ = test::case_random(1);
  std::vector<std::byte> memory_;
  std::vector<nkv_page_entry> entries_;
  std::map<std::uint64_t, bool> poisoned_;
  std::map<std::uint8_t, unsigned> seen_;
};

TEST_F(PageAcceptTest, JudgesAsTheModelWhateverTheCommandDemands) {
  for (unsigned demands = 0; demands < 16; ++demands) {
    const Demand demand{.any_codec = (demands & 1) != 0,
                        .keys = (demands & 2) != 0,
                        .values = (demands & 4) != 0,
                        .was_verified = (demands & 8) != 0};
    pass(demand, 8, false);
    if (HasFatalFailure()) return;
  }
  for (const std::uint8_t status :
       {NKV_STATUS_OK, NKV_STATUS_ADDRESS_FAULT, NKV_STATUS_STALE_PAGE, NKV_STATUS_BAD_PAGE,
        NKV_STATUS_CORRUPT, NKV_STATUS_POISON, NKV_STATUS_COLD_PAGE}) {
    EXPECT_GT(seen(status), 50u) << "status " << int{status};
  }
}

TEST_F(PageAcceptTest, JudgesAtEveryPace) {
  for (const unsigned pace : kPaces) {
    pass({.values = true}, pace, false);
    pass({.keys = true}, pace, false);
    pass({.raw_keys = true}, pace, false);
    pass({.alike = true}, pace, false);
    pass({.any_values = true}, pace, false);
    pass({.any_codec = true, .no_codes = true}, pace, false);
    if (HasFatalFailure()) return;
  }
}

TEST_F(PageAcceptTest, DealsWithOnePageAfterTheOtherWhereThatIsAskedFor) {
  pass({.any_codec = true}, 8, true);
}

}  // namespace
}  // namespace nearkv::rtl_test
