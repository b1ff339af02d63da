#include "codes/attend_by_codes.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <optional>

#include "codes/best_by_codes.hpp"

namespace nearkv {
namespace {

constexpr unsigned kMostRounds = 5;
constexpr unsigned kFreeRounds = 2;

CodedQuestion question_of(const AttendContext& context, const AttendSpec& request, ScanFor what) {
  return {context.list, context.visibility, context.query,    context.workers,
          what,         request.scale,      request.value_dim};
}

/// DENSE's answer, with what has been read counted too.
Outcome answer_dense(const AttendContext& context, const AttendSpec& request, const CodedList& list,
                     AttendResult* result) {
  const Outcome outcome = attend_dense(context, request, result);
  result->traffic += list.traffic();
  result->dense_fallback = true;
  return outcome;
}

void answer_sums(const AttendContext& context, const CodeScratch& scratch, AttendResult* result) {
  scratch.sums.finish(context.list.v_exponent(), &result->state);
  result->traffic += scratch.list.traffic();
  result->nonfinite = scratch.list.hides_nonfinite();
  result->bound.assign(context.query.rows(), 0.0F);
}

template <typename Item>
std::uint32_t first_page(std::span<const Item> items) {
  return items.empty() ? std::numeric_limits<std::uint32_t>::max() : items.front().page;
}

/// Takes off the items of a page that they begin with.
template <typename Item>
std::span<const Item> take_page(std::uint32_t page, std::span<const Item>* items) {
  std::size_t count = 0;
  while (count < items->size() && (*items)[count].page == page) ++count;
  const std::span<const Item> taken = items->first(count);
  *items = items->subspan(count);
  return taken;
}

/// One BOUNDED command.
class BoundedByCodes {
 public:
  BoundedByCodes(const AttendContext& context, const AttendSpec& request, CodeScratch* scratch,
                 AttendResult* result)
      : context_(context), request_(request), scratch_(scratch), result_(result) {}

  Outcome run() {
    scratch_->chooser.begin(&list().state(), &errors(), request_.value_dim);
    if (list().is_loud()) return give_up();
    list().sum(&scratch_->sums);
    for (;;) {
      if (!scratch_->sums.has_tokens()) return answer(Bounds::kZero);
      errors().measure(list().state(), scratch_->sums, context_.list.v_exponent(),
                       {request_.error, request_.z16}, context_.workers);
      if (errors().left().empty()) return answer(Bounds::kMeasured);
      if (rounds_ == kMostRounds) return give_up();
      bool has_stopped = false;
      const Outcome outcome = read(&has_stopped);
      if (!outcome.ok()) return outcome;
      if (has_stopped) return give_up();
      ++rounds_;
      if (list().is_loud()) return give_up();
    }
  }

 private:
  enum class Bounds { kZero, kMeasured, kInfinite };

  [[nodiscard]] CodedList& list() { return scratch_->list; }
  [[nodiscard]] RowErrors& errors() { return scratch_->errors; }

  Outcome read(bool* has_stopped) {
    const auto [keys, values] = errors().count(list().state(), context_.workers);
    threshold_ = code_threshold(list().state(), keys, values,
                                rounds_ >= kFreeRounds ? threshold_ : std::nullopt);
    Traffic planned = plan();
    while (planned.total() == 0 && *threshold_ > kLeastThreshold) {
      *threshold_ -= kThresholdStep;
      planned = plan();
    }
    *has_stopped = planned.total() == 0 || !may_read(planned.total());
    return *has_stopped ? Outcome{} : take(planned);
  }

  [[nodiscard]] bool may_read(std::uint64_t planned) {
    const std::uint64_t total = list().traffic().total() + planned;
    if (request_.byte_cap != 0) return total * 256 <= list().dense_bursts() * request_.byte_cap;
    return total * 20 <= list().dense_bursts() * 17;
  }

  /// Chooses at the present threshold, and says what that costs.
  Traffic plan() {
    scratch_->chooser.choose(*threshold_, &scratch_->choice);
    gather_demands();
    const bool are_vast = std::ranges::any_of(
        errors().left(), [&](std::uint32_t row) { return errors().total(row) == kMostError; });
    const Traffic all = costs();
    if (rounds_ > 0 || !are_vast || scratch_->choice.values.empty()) return all;
    // Where errors are vast, keys come first: they tell what values are worth.
    kept_values_.swap(scratch_->choice.values);
    scratch_->choice.values.clear();
    const std::vector<PageDemand> demands = scratch_->demands;
    if (!list().shares_rows()) {
      for (PageDemand& demand : scratch_->demands) demand.value_rows = 0;
      std::erase_if(scratch_->demands, [](const PageDemand& demand) {
        return (demand.key_rows | demand.value_rows) == 0;
      });
    }
    const Traffic of_keys = costs();
    if (of_keys.total() > 0) return of_keys;
    scratch_->choice.values.swap(kept_values_);
    scratch_->demands = demands;
    return all;
  }

  [[nodiscard]] Traffic costs() {
    const CodeState& state = list().state();
    Traffic traffic = list().costs(scratch_->demands);
    for (const GranuleChoice& choice : scratch_->choice.keys) {
      const unsigned now = state.key_planes(choice.page)[choice.granule];
      traffic.refine += (choice.planes - now) * state.key_granules().bursts;
    }
    for (const GranuleChoice& choice : scratch_->choice.values) {
      const unsigned now = state.value_planes(choice.page)[choice.granule];
      traffic.value += (choice.planes - now) * state.value_granules().bursts;
    }
    return traffic;
  }

  /// Rows of all choices, by page.
  void gather_demands() {
    const CodeChoice& choice = scratch_->choice;
    std::vector<PageDemand>& demands = scratch_->demands;
    demands.clear();
    auto key = choice.keys.begin();
    auto value = choice.values.begin();
    while (key != choice.keys.end() || value != choice.values.end()) {
      const bool is_key =
          value == choice.values.end() || (key != choice.keys.end() && key->page <= value->page);
      const GranuleChoice& next = is_key ? *key++ : *value++;
      if (next.rows == 0) continue;
      if (demands.empty() || demands.back().page != next.page) demands.push_back({next.page});
      (is_key ? demands.back().key_rows : demands.back().value_rows) |= next.rows;
    }
    if (!list().shares_rows()) return;
    for (PageDemand& demand : demands) {
      demand.key_rows |= demand.value_rows;
      demand.value_rows = demand.key_rows;
    }
  }

  /// What is chosen, by page.
  void gather_pages() {
    std::vector<std::uint32_t>& pages = scratch_->pages;
    std::vector<PageChoice>& choices = scratch_->page_choices;
    pages.clear();
    choices.clear();
    std::span<const PageDemand> demands = scratch_->demands;
    std::span<const GranuleChoice> keys = scratch_->choice.keys;
    std::span<const GranuleChoice> values = scratch_->choice.values;
    while (!demands.empty() || !keys.empty() || !values.empty()) {
      PageChoice& next = choices.emplace_back();
      next.page = std::min({first_page(demands), first_page(keys), first_page(values)});
      next.has_rows = !take_page(next.page, &demands).empty();
      next.keys = take_page(next.page, &keys);
      next.values = take_page(next.page, &values);
      pages.push_back(next.page);
    }
  }

  Outcome take(const Traffic& planned) {
    gather_pages();
    // Where a round touches most pages, all of them are summed anew.
    const bool are_few = 2 * scratch_->pages.size() < list().state().pages().size();
    if (are_few) list().take_out(scratch_->pages, &scratch_->sums);
    const Outcome outcome = list().read_rows(scratch_->demands, &scratch_->scores);
    if (!outcome.ok()) return outcome;
    list().traffic().refine += planned.refine;
    list().traffic().value += planned.value - list().costs(scratch_->demands).value;
    list().read_planes(scratch_->page_choices, &errors());
    if (are_few) {
      list().put_back(scratch_->pages, &scratch_->sums);
    } else {
      list().sum(&scratch_->sums);
    }
    return {};
  }

  Outcome answer(Bounds bounds) {
    answer_sums(context_, *scratch_, result_);
    result_->rounds = rounds_;
    for (std::size_t row = 0; row < result_->bound.size(); ++row) {
      if (bounds == Bounds::kMeasured) {
        result_->bound[row] = error_bound(request_.error, errors().total(row));
      } else if (bounds == Bounds::kInfinite) {
        result_->bound[row] = std::numeric_limits<float>::infinity();
      }
    }
    return {};
  }

  /// Dense, or what there is if that may not be read.
  Outcome give_up() {
    result_->rounds = rounds_;
    if (request_.byte_cap == 0) return answer_dense(context_, request_, list(), result_);
    result_->capped = true;
    if (!list().is_loud()) return answer(Bounds::kMeasured);
    list().sum(&scratch_->sums);
    return answer(Bounds::kInfinite);
  }

  const AttendContext& context_;
  const AttendSpec& request_;
  CodeScratch* scratch_;
  AttendResult* result_;
  std::optional<int> threshold_;
  std::vector<GranuleChoice> kept_values_;
  unsigned rounds_ = 0;
};

/// Scans, and reads pages without codes.
Outcome begin(const CodedQuestion& question, CodeScratch* scratch, RowErrors* errors,
              bool* is_served) {
  Outcome outcome = scratch->list.scan(question, errors, is_served);
  if (!outcome.ok() || !*is_served) return outcome;
  outcome = scratch->list.read_rows(scratch->list.plain(), &scratch->scores);
  if (!outcome.ok()) return outcome;
  scratch->pages.clear();
  for (const PageDemand& demand : scratch->list.plain()) scratch->pages.push_back(demand.page);
  scratch->list.weigh(scratch->pages);
  return {};
}

}  // namespace

Outcome bounded_by_codes(const AttendContext& context, const AttendSpec& request,
                         CodeScratch* scratch, AttendResult* result, bool* is_served) {
  const CodedQuestion question = question_of(context, request, ScanFor::kErrors);
  const Outcome outcome = begin(question, scratch, &scratch->errors, is_served);
  if (!outcome.ok() || !*is_served) return outcome;
  return BoundedByCodes(context, request, scratch, result).run();
}

Outcome tail_by_codes(const AttendContext& context, const AttendSpec& request, CodeScratch* scratch,
                      AttendResult* result, bool* is_served) {
  const CodedQuestion question = question_of(context, request, ScanFor::kWeights);
  CodedList& list = scratch->list;
  Outcome outcome = begin(question, scratch, nullptr, is_served);
  if (!outcome.ok() || !*is_served) return outcome;
  if (list.is_loud()) return answer_dense(context, request, list, result);
  best_by_codes(list.state(), request.top_k, &scratch->tokens);
  scratch->demands.clear();
  scratch->pages.clear();
  for (std::uint32_t page = 0; page < scratch->tokens.size(); ++page) {
    const std::uint64_t tokens = scratch->tokens[page] & ~list.state().reads()[page].key_rows;
    if (tokens == 0) continue;
    scratch->demands.push_back({page, tokens, tokens});
    scratch->pages.push_back(page);
  }
  outcome = list.read_rows(scratch->demands, &scratch->scores);
  if (!outcome.ok()) return outcome;
  if (list.is_loud()) return answer_dense(context, request, list, result);
  list.weigh(scratch->pages);
  list.sum(&scratch->sums);
  answer_sums(context, *scratch, result);
  return {};
}

Outcome attend_by_mode(const AttendContext& context, const AttendSpec& request, std::uint8_t mode,
                       CodeScratch* scratch, AttendResult* result) {
  if (mode == NKV_ATTEND_MODE_DENSE) return attend_dense(context, request, result);
  bool is_served = false;
  // A subnormal soft cap is none.
  if (!std::isnormal(request.soft_cap)) {
    const auto by_codes = mode == NKV_ATTEND_MODE_TAIL ? tail_by_codes : bounded_by_codes;
    const Outcome outcome = by_codes(context, request, scratch, result, &is_served);
    if (!outcome.ok() || is_served) return outcome;
  }
  result->dense_fallback = true;
  return attend_dense(context, request, result);
}

}  // namespace nearkv
