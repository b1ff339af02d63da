#include "codes/attend_by_codes.hpp"

#include <algorithm>
#include <cmath>
#include <functional>
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
    CodeChoice& choice = scratch_->choice;
    scratch_->chooser.choose(*threshold_, &choice);
    if (list().shares_rows()) {
      for (PageChoice& page : choice.pages) {
        page.key_rows |= page.value_rows;
        page.value_rows = page.key_rows;
      }
    }
    const bool are_vast = std::ranges::any_of(
        errors().left(), [&](std::uint32_t row) { return errors().total(row) == kMostError; });
    // Where errors are vast, keys come first: they tell what values are worth.
    if (rounds_ == 0 && are_vast && std::ranges::any_of(choice.pages, &PageChoice::has_keys))
      drop_values();
    scratch_->demands.clear();
    for (const PageChoice& page : choice.pages) {
      if (!page.has_rows()) continue;
      scratch_->demands.push_back({page.page, page.key_rows, page.value_rows});
    }
    Traffic traffic = list().costs(scratch_->demands);
    traffic.refine += choice.key_planes * list().state().key_granules().bursts;
    traffic.value += choice.value_planes * list().state().value_granules().bursts;
    return traffic;
  }

  /// All that is chosen of values alone.
  void drop_values() {
    CodeChoice& choice = scratch_->choice;
    choice.value_planes = 0;
    for (PageChoice& page : choice.pages) {
      page.value_planes = {};
      if (!list().shares_rows()) page.value_rows = 0;
    }
    std::erase_if(choice.pages, std::not_fn(&PageChoice::has_keys));
  }

  Outcome take(const Traffic& planned) {
    scratch_->pages.clear();
    for (const PageChoice& page : scratch_->choice.pages) scratch_->pages.push_back(page.page);
    // Where a round touches most pages, all of them are summed anew.
    const bool are_few = 2 * scratch_->pages.size() < list().state().pages().size();
    if (are_few) list().take_out(scratch_->pages, &scratch_->sums);
    const Outcome outcome = list().read_rows(scratch_->demands, &scratch_->scores);
    if (!outcome.ok()) return outcome;
    list().traffic().refine += planned.refine;
    list().traffic().value += planned.value - list().costs(scratch_->demands).value;
    list().read_planes(scratch_->choice.pages, &errors());
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
