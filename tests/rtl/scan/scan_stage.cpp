#include "scan_stage.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <limits>
#include <numeric>
#include <stdexcept>

namespace nearkv::rtl_test {

namespace {

enum Op : unsigned { kStart, kScan, kThreshold, kBest, kFreeze, kAlive, kRefine };
constexpr unsigned kPatience = 200000;
constexpr unsigned kFrames = 64;
constexpr unsigned kPageQuads = 16;
constexpr std::uint64_t kPageMidpointBytes = 1024;

}  // namespace

void ScanStage::cycle() {
  Simulation<Vnkv_scan>& m = module_;
  const bool refines = m->op_op_i == kRefine;
  m->record_valid_i = !records_.empty() && is_willing(random_, pace_.records) &&
                      (!refines || has_midpoints(records_.front().page));
  if (!records_.empty()) {
    const Record& record = records_.front();
    m->record_page_i = static_cast<std::uint16_t>(record.page);
    m->record_tokens_i = record.tokens;
    m->record_step_exponent_i = static_cast<std::uint16_t>(record.step_exponent);
    m->record_first_i = record.first;
  }
  m->burst_valid_i = !bursts_.empty() && is_willing(random_, pace_.bursts);
  if (!bursts_.empty()) {
    const Burst& burst = bursts_.front();
    std::memcpy(m->burst_data_i.data(), burst.data.data(), sizeof(burst.data));
    m->burst_tag_kind_i = burst.is_plane;
    m->burst_tag_plane_i = static_cast<std::uint8_t>(burst.plane);
    m->burst_tag_quad_i = static_cast<std::uint8_t>(burst.quad);
    m->burst_tag_last_i = burst.last;
  }
  m->choose_valid_i = !to_choose_.empty() && is_willing(random_, pace_.records) &&
                      (to_choose_.front().second == 0 || has_midpoints(to_choose_.front().first));
  if (!to_choose_.empty()) {
    m->choose_page_i = static_cast<std::uint16_t>(to_choose_.front().first);
    m->choose_tokens_i = to_choose_.front().second;
  }
  m->chosen_ready_i = is_willing(random_, pace_.chosen);
  m->spill_ready_i = is_willing(random_, pace_.scratch);
  m->spilled_i = spilled_.empty();
  offer_midpoints();
  m.settle();
  const bool takes_record = m->record_valid_i && m->record_ready_o;
  const bool takes_burst = m->burst_valid_i && m->burst_ready_o;
  const bool takes_choice = m->choose_valid_i && m->choose_ready_o;
  if (m->chosen_valid_o && m->chosen_ready_i) {
    chosen_.emplace_back(m->chosen_page_o, m->chosen_tokens_o);
    over(m->chosen_page_o);
  }
  if (m->refined_o) over(m->refined_page_o);
  take_spilled();
  m.tick();
  m->fill_i = 0;
  if (takes_record) records_.pop_front();
  if (takes_choice) to_choose_.pop_front();
  if (takes_burst) {
    bursts_.pop_front();
    ++op_bursts_;
  }
}

bool ScanStage::has_midpoints(std::uint32_t page) const {
  return page < kKeptPages || loaded_.contains(page);
}

void ScanStage::fill(std::uint32_t page, unsigned quad) {
  const std::uint64_t address = page * kPageMidpointBytes + std::uint64_t{quad} * NKV_BURST_BYTES;
  module_->fill_i = 1;
  module_->fill_page_i = static_cast<std::uint16_t>(page);
  module_->fill_quad_i = static_cast<std::uint8_t>(quad);
  std::memcpy(module_->fill_data_i.data(), scratch_.at(address).data(), NKV_BURST_BYTES);
}

// As nkv_midpoint_loader does it: pages in order, each once its frame is free.
void ScanStage::offer_midpoints() {
  if (to_load_.empty() || !is_willing(random_, pace_.scratch)) return;
  const std::uint32_t page = to_load_.front();
  if (loaded_quads_ == 0 && !in_frame_.emplace(page % kFrames, page).second) return;
  fill(page, loaded_quads_);
  if (++loaded_quads_ < kPageQuads) return;
  loaded_quads_ = 0;
  loaded_.insert(page);
  to_load_.pop_front();
}

void ScanStage::over(std::uint32_t page) {
  if (loaded_.erase(page) != 0) in_frame_.erase(page % kFrames);
}

void ScanStage::take_spilled() {
  Simulation<Vnkv_scan>& m = module_;
  if (!spilled_.empty() && spilled_.front().there_at <= m.cycles()) {
    scratch_[spilled_.front().address] = spilled_.front().data;
    spilled_.pop_front();
  }
  if (!m->spill_valid_o || !m->spill_ready_i) return;
  EXPECT_GE(m->spill_address_o, kKeptPages * kPageMidpointBytes) << "of a page that stays on chip";
  EXPECT_EQ(m->spill_strobes_o, ~std::uint64_t{0});
  Spilled spilled{
      .address = m->spill_address_o, .data = {}, .there_at = m.cycles() + pace_.scratch_cycles};
  std::memcpy(spilled.data.data(), m->spill_data_o.data(), sizeof(spilled.data));
  spilled_.push_back(spilled);
}

void ScanStage::issue(unsigned op, unsigned pages, unsigned planes, unsigned count) {
  module_->op_op_i = static_cast<std::uint8_t>(op);
  module_->op_pages_i = static_cast<std::uint16_t>(pages);
  module_->op_planes_i = static_cast<std::uint8_t>(planes);
  module_->op_count_i = static_cast<std::uint16_t>(count);
  module_->op_valid_i = 1;
  shown_.reset();
  if (!module_.tick_until([&] { return module_->op_ready_o; }, kPatience)) {
    throw std::runtime_error("the stage does not take an operation");
  }
  op_start_ = module_.cycles();
  op_bursts_ = 0;
  module_.tick();
  module_->op_valid_i = 0;
}

void ScanStage::finish() {
  for (unsigned i = 0; i < kPatience; ++i) {
    module_.settle();
    if (module_->op_ready_o) {
      op_cycles_ = module_.cycles() - op_start_;
      return;
    }
    cycle();
  }
  throw std::runtime_error("operation " + std::to_string(module_->op_op_i) + " does not end, " +
                           std::to_string(records_.size()) + " records and " +
                           std::to_string(bursts_.size()) + " bursts left");
}

void ScanStage::start(const ScanList& list, const ScanSettings& settings) {
  list_ = &list;
  settings_ = settings;
  module_->op_settings_rows_i = static_cast<std::uint8_t>(settings.rows);
  module_->op_settings_blocks_i = static_cast<std::uint8_t>(list.head_dim() / 16);
  module_->op_settings_planes_i = static_cast<std::uint8_t>(settings.planes);
  module_->op_settings_statistical_i = settings.statistical;
  module_->op_settings_z_i = static_cast<std::uint8_t>(settings.z);
  module_->op_settings_key_exponent_i = static_cast<std::uint8_t>(list.key_exponent());
  issue(kStart, 0, 0, 0);
  const unsigned words = (list.head_dim() + 31) / 32;
  for (unsigned row = 0; row < kRows; ++row) {
    for (unsigned word = 0; word < words; ++word) {
      for (unsigned c = 0; c < 32; ++c) {
        const bool is_there = word * 32 + c < list.head_dim();
        module_->query_data_i[c] = (is_there ? list.query().row(row)[word * 32 + c] : 0) & 0xffffff;
      }
      module_->query_row_i = static_cast<std::uint8_t>(row);
      module_->query_word_i = static_cast<std::uint8_t>(word);
      module_->query_valid_i = 1;
      if (!module_.tick_until([&] { return module_->query_ready_o; }, 8)) {
        throw std::runtime_error("the stage does not take the query");
      }
      module_.tick();
      module_->query_valid_i = 0;
      if (!is_willing(random_, pace_.records)) module_.tick();
    }
  }
  finish();
}

void ScanStage::push_array(std::size_t page, nkv_page_array array, std::size_t first,
                           std::size_t bursts, const Burst& tag) {
  const auto bytes = list_->pages()[page].page.array(array);
  for (std::size_t i = 0; i < bursts; ++i) {
    Burst burst = tag;
    burst.last = tag.last && i + 1 == bursts;
    // Bytes behind an array are anything.
    for (auto& word : burst.data) word = static_cast<std::uint32_t>(random_());
    const std::size_t at = (first + i) * NKV_BURST_BYTES;
    const auto part = bytes.subspan(at, std::min<std::size_t>(NKV_BURST_BYTES, bytes.size() - at));
    std::memcpy(burst.data.data(), part.data(), part.size());
    bursts_.push_back(burst);
  }
}

void ScanStage::push_digest(std::size_t page) {
  push_array(page, NKV_PAGE_ARRAY_K_DIGEST, 0, (list_->head_dim() + 31) / 32,
             {.data = {}, .is_plane = false, .plane = 0, .quad = 0, .last = false});
}

void ScanStage::queue_scan() {
  const model::ListedPages& pages = list_->pages();
  const unsigned granule = 64 / std::gcd(64U, list_->head_dim() / 8);
  const unsigned granule_bursts = granule * list_->head_dim() / 8 / NKV_BURST_BYTES;
  for (std::size_t page = 0; page < pages.size() + pace_.digests_ahead; ++page) {
    if (page < pages.size()) {
      records_.push_back({.page = static_cast<std::uint32_t>(page),
                          .tokens = pages[page].visible,
                          .step_exponent = pages[page].page.header().k_step_exponent,
                          .first = page == 0});
      push_digest(page);
    }
    if (page < pace_.digests_ahead) continue;
    const std::size_t scanned = page - pace_.digests_ahead;
    for (unsigned plane = 1; plane <= settings_.planes; ++plane) {
      for (unsigned token = 0; token < NKV_PAGE_TOKENS; token += granule) {
        push_array(scanned, static_cast<nkv_page_array>(NKV_PAGE_ARRAY_K_PLANE0 + plane - 1),
                   token / granule * granule_bursts, granule_bursts,
                   {.data = {},
                    .is_plane = true,
                    .plane = plane,
                    .quad = token / 4,
                    .last = plane == settings_.planes && token + granule == NKV_PAGE_TOKENS});
      }
    }
  }
}

void ScanStage::scan() {
  queue_scan();
  issue(kScan, static_cast<unsigned>(list_->pages().size()), 0, 0);
  finish();
}

void ScanStage::begin_scan_only(unsigned cycles) {
  queue_scan();
  issue(kScan, static_cast<unsigned>(list_->pages().size()), 0, 0);
  for (unsigned i = 0; i < cycles; ++i) cycle();
  records_.clear();
  bursts_.clear();
  module_->record_valid_i = 0;
  module_->burst_valid_i = 0;
}

void ScanStage::abort() {
  module_->abort_i = 1;
  module_.tick();
  module_->abort_i = 0;
  module_.tick();
  spilled_.clear();
  EXPECT_TRUE(module_->op_ready_o || module_->op_op_i == kStart);
}

void ScanStage::refine(const model::TokenSet& alive, unsigned plane) {
  std::vector<std::size_t> touched;
  for (std::size_t page = 0; page < alive.size(); ++page) {
    if (alive[page] != 0) touched.push_back(page);
  }
  // Of pages whose weights were not kept the digests come again, ahead of planes as in a scan.
  for (std::size_t i = 0; i < touched.size() + pace_.digests_ahead; ++i) {
    if (i < touched.size()) {
      const std::size_t page = touched[i];
      const bool kept = page < kKeptPages;
      const auto any = static_cast<std::int16_t>(random_());  // Of no use.
      records_.push_back(
          {.page = static_cast<std::uint32_t>(page),
           .tokens = alive[page],
           .step_exponent = kept ? any : list_->pages()[page].page.header().k_step_exponent,
           .first = false});
      if (!kept) {
        push_digest(page);
        to_load_.push_back(static_cast<std::uint32_t>(page));
      }
    }
    if (i < pace_.digests_ahead) continue;
    const std::size_t page = touched[i - pace_.digests_ahead];
    push_granules(page, alive[page], plane);
  }
  issue(kRefine, static_cast<unsigned>(touched.size()), plane, 0);
  finish();
}

void ScanStage::push_granules(std::size_t page, model::TokenMask alive, unsigned plane) {
  const unsigned granule = 64 / std::gcd(64U, list_->head_dim() / 8);
  const unsigned granule_bursts = granule * list_->head_dim() / 8 / NKV_BURST_BYTES;
  const auto in_granule = [&](unsigned token) {
    const model::TokenMask ones =
        granule == 64 ? ~model::TokenMask{0} : (model::TokenMask{1} << granule) - 1;
    return (alive >> token & ones) != 0;
  };
  unsigned last = 0;
  for (unsigned token = 0; token < NKV_PAGE_TOKENS; token += granule) {
    if (in_granule(token)) last = token;
  }
  for (unsigned token = 0; token < NKV_PAGE_TOKENS; token += granule) {
    if (!in_granule(token)) continue;
    push_array(
        page, static_cast<nkv_page_array>(NKV_PAGE_ARRAY_K_PLANE0 + plane - 1),
        token / granule * granule_bursts, granule_bursts,
        {.data = {}, .is_plane = true, .plane = plane, .quad = token / 4, .last = token == last});
  }
}

std::array<int, kRows> ScanStage::thresholds(unsigned count) {
  issue(kThreshold, 0, 0, count);
  finish();
  std::array<int, kRows> thresholds;
  for (std::size_t row = 0; row < kRows; ++row) thresholds[row] = module_->threshold_o[row];
  return thresholds;
}

model::TokenSet ScanStage::choose(unsigned op, const model::TokenSet& among, unsigned planes) {
  for (std::size_t page = 0; page < among.size(); ++page) {
    to_choose_.emplace_back(static_cast<std::uint32_t>(page), among[page]);
    if (page >= kKeptPages && among[page] != 0) {
      to_load_.push_back(static_cast<std::uint32_t>(page));
    }
  }
  chosen_.clear();
  issue(op, static_cast<unsigned>(among.size()), planes, 0);
  finish();
  model::TokenSet chosen;
  for (std::size_t page = 0; page < chosen_.size(); ++page) {
    EXPECT_EQ(chosen_[page].first, page);
    chosen.push_back(chosen_[page].second);
  }
  EXPECT_EQ(chosen.size(), among.size());
  return chosen;
}

model::TokenSet ScanStage::best(const model::TokenSet& among) { return choose(kBest, among, 0); }

model::TokenSet ScanStage::alive(const model::TokenSet& among, unsigned planes) {
  return choose(kAlive, among, planes);
}

std::array<int, kRows> ScanStage::freeze(const std::array<std::int64_t, kRows>& tau) {
  for (std::size_t row = 0; row < kRows; ++row) {
    module_->tau_known_i[row] = tau[row] != std::numeric_limits<std::int64_t>::min();
    module_->tau_score_i[row] =
        static_cast<std::uint64_t>(tau[row]) & ((std::uint64_t{1} << 60) - 1);
  }
  issue(kFreeze, 0, 0, 0);
  finish();
  std::array<int, kRows> frozen;
  for (std::size_t row = 0; row < kRows; ++row) {
    frozen[row] = static_cast<std::int16_t>(module_->tau_o[row]);
  }
  return frozen;
}

std::int16_t ScanStage::midpoint(std::size_t row, std::size_t page, std::uint32_t token) {
  const std::pair word(page, token / 16);
  if (shown_ != word) {
    for (unsigned quad = 0; page >= kKeptPages && quad < kPageQuads; ++quad) {
      fill(static_cast<std::uint32_t>(page), quad);
      module_.tick();
    }
    module_->fill_i = 0;
    module_->read_i = 1;
    module_->read_page_i = static_cast<std::uint16_t>(page);
    module_->read_word_i = static_cast<std::uint8_t>(token / 16);
    module_.tick();
    module_->read_i = 0;
    module_.tick();
    shown_ = word;
  }
  return static_cast<std::int16_t>(module_->midpoint_o[row][token % 16]);
}

std::int64_t ScanStage::reference(std::size_t row) {
  const std::uint32_t stored = module_->reference_o[row];
  return static_cast<std::int32_t>(stored << 3) >> 3;
}

int ScanStage::shift(std::size_t row) { return module_->shift_o[row]; }

std::pair<int, int> ScanStage::range(std::size_t row) {
  EXPECT_TRUE(module_->ranged_o);
  return {static_cast<std::int16_t>(module_->highest_o[row]),
          static_cast<std::int16_t>(module_->lowest_o[row])};
}

}  // namespace nearkv::rtl_test
