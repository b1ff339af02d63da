#include "codes/coded_list.hpp"

#include <algorithm>
#include <array>
#include <atomic>

#include "attend/fetch.hpp"
#include "attend/grain.hpp"
#include "codes/fetch_rows.hpp"
#include "codes/row_errors.hpp"

namespace nearkv {
namespace {

constexpr std::array kScanArrays = {NKV_PAGE_ARRAY_CODE_SUMMARY, NKV_PAGE_ARRAY_K_SIGNS};
constexpr std::array kSearchArrays = {NKV_PAGE_ARRAY_K_EXPONENTS, NKV_PAGE_ARRAY_K_ROWS,
                                      NKV_PAGE_ARRAY_KEY_SCALES};
constexpr std::array kRowArrays = {NKV_PAGE_ARRAY_K_EXPONENTS, NKV_PAGE_ARRAY_K_ROWS,
                                   NKV_PAGE_ARRAY_V_EXPONENTS, NKV_PAGE_ARRAY_V_ROWS};

/// Of whose rows some are asked for ahead: a page alone has few.
constexpr std::size_t kPagesAhead = 5;

template <std::size_t kCount>
std::uint64_t array_bursts(const PageView& view, const std::array<nkv_page_array, kCount>& arrays) {
  std::uint64_t count = 0;
  for (const nkv_page_array array : arrays) count += bursts(view.bytes(array).size());
  return count;
}

}  // namespace

/// What a member of the team needs for itself, and what it has found.
struct CodedList::Worker {
  PageScorer scorer;
  GranuleMeasure granules;
  PageSummer summer;
  CodeSums sums;
  PageView view;
  std::uint64_t stream = 0;
  std::uint64_t dense = 0;
  bool is_loud = false;
  bool hides_nonfinite = false;

  void begin(CodeState* state, const CodedQuestion& question) {
    scorer.begin(state, question.query.dim());
    if (question.value_dim != 0) {
      granules.begin(state, question.value_dim);
      summer.begin(state, &question.list, question.value_dim);
    }
    stream = dense = 0;
    is_loud = hides_nonfinite = false;
  }
};

CodedList::CodedList() : state_(&query_) {}
CodedList::~CodedList() = default;

/// Takes down which pages are listed. False if none is, or none that opens has codes.
bool CodedList::begin(const CodedQuestion& question, RowErrors* errors) {
  question_ = &question;
  errors_ = errors;
  traffic_ = {};
  dense_bursts_ = 0;
  is_loud_ = hides_nonfinite_ = false;
  plain_.clear();
  const PageList& list = question.list;
  std::size_t listed = 0;
  for (std::size_t page = 0; page < list.pages(); ++page) {
    if (question.visibility.mask(page) != 0) ++listed;
  }
  state_.reset(listed, question.query, question.value_dim);
  std::size_t place = 0;
  for (std::size_t page = 0; page < list.pages(); ++page) {
    const std::uint64_t mask = question.visibility.mask(page);
    if (mask == 0) continue;
    CodedPage& coded = state_.pages()[place++];
    coded.index = static_cast<std::uint32_t>(page);
    coded.in_sight = mask;
  }
  if (!find_gains()) return false;
  if (errors != nullptr) errors->reset(state_);
  value_sources_.resize(listed);
  while (workers_.size() < question.workers->size()) workers_.push_back(std::make_unique<Worker>());
  for (const auto& worker : workers_) worker->begin(&state_, question);
  return true;
}

/// Opens pages up to the first one with codes, whose gains hold.
bool CodedList::find_gains() {
  for (const CodedPage& page : state_.pages()) {
    const Status status = question_->list.open(
        page.index, HeaderDepth::kScan, question_->query.dim(), question_->value_dim, &gains_);
    if (status != Status::kOk) return false;
    shares_rows_ = gains_.header().v_form == NKV_ROW_FORM_NONE;
    if (gains_.has_codes()) return true;
  }
  return false;
}

/// Calls visit(worker, first, end) for pages, at most kPagesAtATime of them.
template <typename Visit>
void CodedList::for_each_run(const Visit& visit) {
  question_->workers->for_each(
      state_.pages().size(), kPagesAtATime,
      [&](unsigned member, std::size_t begin, std::size_t end) {
        for (std::size_t first = begin; first < end; first += kPagesAtATime) {
          visit(workers_[member].get(), first, std::min(first + kPagesAtATime, end));
        }
      });
}

Outcome CodedList::scan(const CodedQuestion& question, RowErrors* errors, bool* is_served) {
  *is_served = false;
  if (!begin(question, errors)) return {};
  // Gains that are damaged spoil the scores of a command that is going to fail.
  const std::span<const std::byte> bytes = gains_.bytes(NKV_PAGE_ARRAY_K_GAINS);
  const std::span gains(reinterpret_cast<const std::int8_t*>(bytes.data()), bytes.size());
  const bool is_search = question.scan_for == ScanFor::kSearch;
  if (!is_search) query_.prepare(question.query, gains, question.scale);
  std::atomic<bool> is_refused{false};
  FirstFault fault;
  for_each_run([&](Worker* worker, std::size_t first, std::size_t end) {
    bool are_open = true;
    for (std::size_t page = first; page < end; ++page) {
      if (is_refused.load(std::memory_order_relaxed)) return;
      const Status status = open_page(worker, page);
      if (status == Status::kUnsupported) is_refused.store(true, std::memory_order_relaxed);
      if (status == Status::kBadPage || status == Status::kCorrupt) {
        fault.record(state_.pages()[page].index, status);
      }
      are_open &= status == Status::kOk;
    }
    // With a page that does not open the command fails.
    if (are_open && !is_search) score_pages(worker, first, end);
  });
  if (is_refused.load(std::memory_order_relaxed)) return {};
  if (fault.any()) return fault.outcome();
  if (gains_.check(NKV_PAGE_ARRAY_K_GAINS) != Status::kOk) {
    const auto first = std::ranges::find_if(state_.pages(), &CodedPage::is_coded);
    return {Status::kCorrupt, first->index};
  }
  if (is_search) {
    query_.prepare_search(question.query, gains, search_top());
    for_each_run([&](Worker* worker, std::size_t first, std::size_t end) {
      score_pages(worker, first, end);
    });
  }
  traffic_.stream = bursts(gains.size());
  for (const auto& worker : workers_) {
    traffic_.stream += worker->stream;
    dense_bursts_ += worker->dense;
    is_loud_ |= worker->is_loud;
    hides_nonfinite_ |= worker->hides_nonfinite;
  }
  for (std::uint32_t page = 0; page < state_.pages().size(); ++page) {
    const std::uint64_t tokens = state_.pages()[page].plain();
    if (tokens != 0) plain_.push_back({page, tokens, is_search ? 0 : tokens});
  }
  const std::uint64_t whole_scan = traffic_.stream + costs(plain_).total();
  if (whole_scan * 20 > dense_bursts_ * 17) return {};
  scorer_.emplace(question.query, question.list.k_exponent());
  *is_served = true;
  return {};
}

/// kUnsupported: an exact command is to say what is wrong with the page.
Status CodedList::open_page(Worker* worker, std::size_t place) {
  CodedPage& coded = state_.pages()[place];
  PageView& view = worker->view;
  const PageList& list = question_->list;
  const Status status = list.open(coded.index, HeaderDepth::kScan, question_->query.dim(),
                                  question_->value_dim, &view);
  if (status != Status::kOk) return Status::kUnsupported;
  if (place + kPagesAtATime < state_.pages().size()) {
    const std::byte* const next = list.peek(state_.pages()[place + kPagesAtATime].index);
    if (next != nullptr) {
      fetch_head(view, next, {NKV_PAGE_ARRAY_CODE_SUMMARY, NKV_PAGE_ARRAY_K_SIGNS});
    }
  }
  const nkv_page_header& header = view.header();
  if (view.has_codes() && header.sign_set >= NKV_SIGN_SETS) return Status::kBadPage;
  const bool is_coded = view.has_codes() && header.crc_k_gains == gains_.header().crc_k_gains;
  if (is_coded && view.check(kScanArrays) != Status::kOk) return Status::kCorrupt;
  coded.take(view, is_coded);
  coded.visible = coded.in_sight & ~header.nonfinite;
  worker->hides_nonfinite |= coded.visible != coded.in_sight;
  worker->stream += 1 + (is_coded ? array_bursts(view, kScanArrays) : 0);
  worker->dense += bursts(sizeof(nkv_page_header)) + (question_->scan_for == ScanFor::kSearch
                                                          ? array_bursts(view, kSearchArrays)
                                                          : array_bursts(view, kRowArrays));
  return Status::kOk;
}

void CodedList::score_pages(Worker* worker, std::size_t first, std::size_t end) {
  worker->is_loud |= worker->scorer.scan(first, end);
  if (question_->scan_for == ScanFor::kSearch) return;
  // Without errors, nothing asks for P of a page that is not weighed again.
  worker->scorer.draw(errors_ != nullptr);
  if (errors_ == nullptr) return;
  for (std::size_t page = first; page < end; ++page) {
    if (state_.pages()[page].coded() == 0) continue;
    const ValueScale scale = worker->granules.scale_of(page);
    errors_->scales().set(page, scale, state_.pages()[page].values.mean_power);
    worker->granules.measure(page, {.keys = true, .has_residuals = !is_nothing(scale.residual)},
                             &errors_->logs());
  }
}

/// T (14.2): the largest factor of the list's keys, or if none has one, the largest unit of means.
int CodedList::search_top() const {
  std::optional<int> factor;
  std::optional<int> mean;
  for (const CodedPage& page : state_.pages()) {
    if (page.coded() == 0) continue;
    if (page.keys.has_factors()) {
      factor = std::max(factor.value_or(page.keys.top), page.keys.top);
    }
    mean = std::max(mean.value_or(page.keys.mean_power), page.keys.mean_power);
  }
  return factor.value_or(16 * mean.value_or(0));
}

Traffic CodedList::costs(std::span<const PageDemand> demands) const {
  Traffic traffic;
  for (const PageDemand& demand : demands) {
    const CodedPage& page = state_.pages()[demand.page];
    if (demand.key_rows != 0) {
      traffic.exact += page.key_exponent_bursts + row_bursts(demand.key_rows, page.key_row_bytes);
    }
    if (demand.value_rows != 0) {
      traffic.value += page.value_exponent_bursts;
      if (page.value_row_bytes != 0) {
        traffic.value += row_bursts(demand.value_rows, page.value_row_bytes);
      }
    }
  }
  return traffic;
}

Outcome CodedList::read_rows(std::span<const PageDemand> demands,
                             std::vector<std::int64_t>* scores) {
  const std::size_t rows = state_.rows();
  places_.clear();
  std::size_t tokens = 0;
  for (const PageDemand& demand : demands) {
    places_.push_back(tokens);
    tokens += static_cast<std::size_t>(std::popcount(demand.key_rows));
  }
  scores->resize(tokens * rows);
  FirstFault of_keys;
  FirstFault of_values;
  question_->workers->for_each(
      demands.size(), kRowPagesAtATime, [&](unsigned, std::size_t begin, std::size_t end) {
        std::size_t fetched = begin + 1;
        for (std::size_t i = begin; i < end; ++i) {
          const PageDemand& demand = demands[i];
          if ((demand.key_rows | demand.value_rows) == 0) continue;
          const CodedPage& coded = state_.pages()[demand.page];
          FirstFault& fault = demand.key_rows != 0 ? of_keys : of_values;
          PageView view;
          Status status = question_->list.open(coded.index, HeaderDepth::kRows,
                                               question_->query.dim(), question_->value_dim, &view);
          // What was scanned must be what is read now.
          if (status == Status::kOk && view.header().crc_hot != coded.crc_hot) {
            status = Status::kStalePage;
          }
          if (status == Status::kOk && demand.key_rows != 0) {
            status = view.check(NKV_PAGE_ARRAY_K_EXPONENTS);
          }
          if (status != Status::kOk) {
            fault.record(coded.index, status);
            continue;
          }
          for (; fetched < std::min(i + kPagesAhead, end); ++fetched) {
            fetch_next(view, demands[fetched]);
          }
          if (demand.value_rows != 0) {
            if (view.check(NKV_PAGE_ARRAY_V_EXPONENTS) != Status::kOk) {
              of_values.record(coded.index, Status::kCorrupt);
              continue;
            }
            value_sources_[demand.page] = view.values();
          }
          scorer_->score(view.keys(), demand.key_rows, scores->data() + places_[i] * rows);
        }
      });
  if (of_keys.any()) return of_keys.outcome();
  if (of_values.any()) return of_values.outcome();

  const Traffic spent = costs(demands);
  traffic_ += spent;
  const std::int64_t* score = scores->data();
  for (const PageDemand& demand : demands) {
    state_.reads()[demand.page].value_rows |= demand.value_rows;
    take_key_rows(demand, score);
    score += static_cast<std::size_t>(std::popcount(demand.key_rows)) * rows;
  }
  return {};
}

void CodedList::take_key_rows(const PageDemand& demand, const std::int64_t* scores) {
  constexpr std::int64_t kMostAbove = (std::int64_t{1} << 15) - 1;
  const bool is_coded = state_.pages()[demand.page].is_coded;
  const std::size_t rows = state_.rows();
  const LogitScale scale(question_->scale);
  const int key_exponent = question_->list.k_exponent();
  const auto place = [&](std::size_t token, std::span<const std::int64_t> logits) {
    for (std::size_t row = 0; row < rows; ++row) {
      const std::int64_t octaves = state_.row_page(demand.page, row).octave;
      const std::int64_t above = (logits[row] >> kExactToCode) - octaves * (1 << kCodeLogitBits);
      is_loud_ |= is_coded && std::abs(above) > kMostAbove;
      state_.above(demand.page, row)[token] =
          static_cast<std::int16_t>(std::clamp(above, -kMostAbove, kMostAbove));
    }
  };
  for_each_bit(demand.key_rows, [&](std::size_t token) {
    const std::span<std::int64_t> logits = state_.add_exact(demand.page, token);
    for (std::size_t row = 0; row < rows; ++row, ++scores) {
      logits[row] = question_->scan_for == ScanFor::kSearch
                        ? query_.search_logit(row, *scores, key_exponent)
                        : scale.logit(*scores, question_->query.exponent(row), key_exponent);
    }
    if (is_coded) place(token, logits);
  });
  if (is_coded) return;
  for (std::size_t row = 0; row < rows; ++row) {
    std::int64_t largest = CodeSums::kNoReference;
    state_.for_each_exact(demand.page, [&](std::uint32_t, std::span<const std::int64_t> logits) {
      largest = std::max(largest, logits[row] >> 16);
    });
    state_.row_page(demand.page, row).octave = static_cast<std::int32_t>(largest);
  }
  state_.for_each_exact(demand.page, place);
}

void CodedList::refine(std::span<const std::uint32_t> pages, std::span<const std::uint64_t> tokens,
                       int planes) {
  std::atomic<bool> is_loud{false};
  question_->workers->for_each(pages.size(), kRowPagesAtATime,
                               [&](unsigned member, std::size_t begin, std::size_t end) {
                                 for (std::size_t i = begin; i < end; ++i) {
                                   PlaneTokens by_planes{};
                                   by_planes[static_cast<std::size_t>(planes)] = tokens[pages[i]];
                                   if (workers_[member]->scorer.refine(pages[i], by_planes)) {
                                     is_loud.store(true, std::memory_order_relaxed);
                                   }
                                 }
                               });
  is_loud_ |= is_loud.load(std::memory_order_relaxed);
}

void CodedList::read_planes(std::span<const PageChoice> choices, RowErrors* errors) {
  std::atomic<bool> is_loud{false};
  question_->workers->for_each(
      choices.size(), kRowPagesAtATime, [&](unsigned member, std::size_t begin, std::size_t end) {
        Worker& worker = *workers_[member];
        for (std::size_t i = begin; i < end; ++i) {
          if (i + 1 < end) fetch_planes(choices[i + 1]);
          const std::size_t page = choices[i].page;
          if (take_planes(choices[i], &worker.scorer)) {
            is_loud.store(true, std::memory_order_relaxed);
          }
          worker.granules.measure(
              page,
              {.keys = choices[i].has_keys(), .has_residuals = !is_nothing(errors->residual(page))},
              &errors->logs());
        }
      });
  is_loud_ |= is_loud.load(std::memory_order_relaxed);
}

/// Asks for the planes that a choice adds, before they are taken.
void CodedList::fetch_planes(const PageChoice& choice) const {
  const CodedPage& coded = state_.pages()[choice.page];
  for (std::size_t planes = 2; planes < choice.key_planes.size(); ++planes) {
    state_.key_granules().for_each(choice.key_planes[planes], [&](std::size_t number) {
      fetch_granule(coded.keys, state_.key_granules(), number,
                    state_.key_planes(choice.page)[number], planes);
    });
  }
  // Values are summed later.
  for (std::size_t planes = 2; planes < choice.value_planes.size(); ++planes) {
    state_.value_granules().for_each(choice.value_planes[planes], [&](std::size_t number) {
      fetch_granule(coded.values, state_.value_granules(), number,
                    state_.value_planes(choice.page)[number], planes);
    });
  }
}

/// Asks for what has been read of a page's values.
void CodedList::fetch_values(std::size_t page) const {
  const PageReads& reads = state_.reads()[page];
  if (reads.value_rows != 0) fetch_rows(value_sources_[page], reads.value_rows);
  if (reads.any_valued() == 0) return;
  const Granules& granules = state_.value_granules();
  const std::uint8_t* const planes = state_.value_planes(page);
  for (std::size_t number = 0; number < granules.count; ++number) {
    fetch_granule(state_.pages()[page].values, granules, number, 0, planes[number]);
  }
}

/// Whether a score becomes loud.
bool CodedList::take_planes(const PageChoice& choice, PageScorer* scorer) {
  const std::size_t page = choice.page;
  const std::uint64_t unread = state_.pages()[page].visible & ~state_.reads()[page].key_rows;
  PlaneTokens refined{};
  bool is_refined = false;
  for (std::size_t planes = 2; planes < refined.size(); ++planes) {
    const std::uint64_t tokens = choice.key_planes[planes];
    if (tokens == 0) continue;
    state_.set_key_planes(page, tokens, planes);
    refined[planes] = tokens & unread;
    is_refined = true;
  }
  for (std::size_t planes = 2; planes < choice.value_planes.size(); ++planes) {
    const std::uint64_t tokens = choice.value_planes[planes];
    if (tokens != 0) state_.set_value_planes(page, tokens, planes);
  }
  const bool is_loud = is_refined && scorer->refine(page, refined);
  // Planes of values change no weight.
  if (is_refined || choice.has_rows()) scorer->weigh(page);
  return is_loud;
}

void CodedList::weigh(std::span<const std::uint32_t> pages) {
  question_->workers->for_each(pages.size(), kRowPagesAtATime,
                               [&](unsigned member, std::size_t begin, std::size_t end) {
                                 for (std::size_t i = begin; i < end; ++i)
                                   workers_[member]->scorer.weigh(pages[i]);
                               });
}

/// Asks for what is going to be read of another page, where alike ones have it.
void CodedList::fetch_next(const PageView& view, const PageDemand& next) const {
  const std::byte* const start = question_->list.peek(state_.pages()[next.page].index);
  if (start == nullptr) return;
  __builtin_prefetch(start, 0, 3);
  __builtin_prefetch(start + NKV_BURST_BYTES, 0, 3);
  fetch_rows(view.keys_at(start), next.key_rows);
  fetch_rows(view.values_at(start), next.value_rows);
}

/// M of all rows.
const std::vector<std::int64_t>& CodedList::find_references() {
  references_.assign(state_.rows(), CodeSums::kNoReference);
  for (std::size_t page = 0; page < state_.pages().size(); ++page) {
    workers_[0]->summer.raise(page, &references_);
  }
  return references_;
}

/// Sums some pages in the workers' sums, against the references of `sums`, and adds these.
template <typename PageAt>
void CodedList::add_pages(std::size_t count, const PageAt& page_at, int sign, CodeSums* sums) {
  for (const auto& worker : workers_) {
    worker->sums.reset(state_.rows(), question_->value_dim);
    worker->sums.reference = sums->reference;
  }
  question_->workers->for_each(
      count, kPagesAtATime, [&](unsigned member, std::size_t begin, std::size_t end) {
        for (std::size_t i = begin; i < end; ++i) {
          if (i + 1 < end) fetch_values(page_at(i + 1));
          const std::size_t page = page_at(i);
          workers_[member]->summer.add(page, value_sources_[page], &workers_[member]->sums);
        }
      });
  for (const auto& worker : workers_) {
    worker->summer.finish(&worker->sums);
    sums->add(worker->sums, sign);
  }
}

void CodedList::sum(CodeSums* sums) {
  sums->reset(state_.rows(), question_->value_dim);
  sums->reference = find_references();
  add_pages(state_.pages().size(), [](std::size_t page) { return page; }, 1, sums);
}

void CodedList::take_out(std::span<const std::uint32_t> pages, CodeSums* sums) {
  add_pages(pages.size(), [&](std::size_t i) { return pages[i]; }, -1, sums);
}

void CodedList::put_back(std::span<const std::uint32_t> pages, CodeSums* sums) {
  if (find_references() != sums->reference) return sum(sums);
  add_pages(pages.size(), [&](std::size_t i) { return pages[i]; }, 1, sums);
}

}  // namespace nearkv
