// What of a sequence to keep where memory is short: retention policies, budgets, statistics.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "nearkv/api.h"
#include "nearkv/status.hpp"

namespace nearkv {

/// A number that a policy can be given.
struct Parameter {
  std::string_view name;
  float value;  ///< Unless the user says otherwise.
  float least;
  float most;
  std::string_view text;  ///< What it is, with its unit.
};

/// By name, as a user gave them, or all of a policy's.
using Parameters = std::map<std::string, float, std::less<>>;

/// Attention of one query position of one (layer, KV head), as far as commands told it. Rows are
/// the query heads of the KV head.
///
/// A TOPK's scores and the LSE of an ATTEND over the same tokens give a mass: exp(score - LSE), the
/// share of the row's attention. Tokens that are not named had less than those that are.
struct Observation {
  std::uint32_t position = 0;  ///< Of the query, which saw tokens up to this one.
  std::uint32_t rows = 1;
  std::uint32_t stride = 0;               ///< Room of a row in what follows.
  std::span<const std::uint32_t> counts;  ///< [rows], each at most `stride`.
  std::span<const std::uint32_t> ids;     ///< [rows][stride], a row's all different.
  std::span<const float> mass;            ///< [rows][stride], each from 0 to 1.
};

/// What a policy cannot do without beside masses.
struct Needs {
  bool key_sketches = false;  ///< Of append().
};

/// What a policy knows of the tokens of one (layer, KV head) of one sequence, and what each is
/// worth. It decides nothing: retain() takes the best that a budget has room for, so that tokens
/// which a policy thinks little of may stay, be kept in a colder form, or come back.
///
/// Tokens are numbered by position. Same calls, same worth: there is no clock and no chance.
/// Thread safety: one thread at a time.
class NEARKV_API RetentionPolicy {
 public:
  RetentionPolicy(const RetentionPolicy&) = delete;
  RetentionPolicy& operator=(const RetentionPolicy&) = delete;
  virtual ~RetentionPolicy() = default;

  [[nodiscard]] const std::string& name() const { return name_; }
  [[nodiscard]] Needs needs() const { return needs_; }
  [[nodiscard]] std::uint32_t tokens() const { return tokens_; }

  /// `count` tokens came. `sketches`: of each one's key (key_sketch()), or empty where needs()
  /// does not name them. kBadArgument, kUnsupported if they are needed and not there.
  Status append(std::uint32_t count, std::span<const std::uint64_t> sketches);

  /// A query attended to them. kBadArgument for tokens that there are not, masses outside 0 to 1,
  /// spans of a wrong size. Nothing changes then.
  Status observe(const Observation& seen);

  /// What each token is worth: the larger, the rather it stays. `worth` has tokens() elements.
  void worth(std::span<float> worth) const;

  /// A policy that goes on from the first `count` tokens of this one, which goes on too, with all
  /// that queries have told of them. Null if there are not so many.
  [[nodiscard]] std::unique_ptr<RetentionPolicy> fork(std::uint32_t count) const;

  /// All that is known, for restore() after a restart.
  [[nodiscard]] std::vector<std::byte> save() const;

  /// Takes up what a policy of the same name and parameters saved. kBadArgument, and no change, for
  /// anything else.
  Status restore(std::span<const std::byte> saved);

  /// Of each token, kept by this beside its page.
  [[nodiscard]] std::size_t state_bytes_per_token() const;

 protected:
  /// `columns` numbers of each token, zero at first. `parameters`: all that it was given, in an
  /// order that stays.
  RetentionPolicy(std::string name, std::vector<float> parameters, Needs needs,
                  std::size_t columns);

  [[nodiscard]] std::span<float> column(std::size_t i) { return columns_[i]; }
  [[nodiscard]] std::span<const float> column(std::size_t i) const { return columns_[i]; }
  [[nodiscard]] std::span<const std::uint64_t> sketches() const { return sketches_; }

 private:
  /// The columns have the new tokens, from `first` on.
  virtual void on_append(std::uint32_t first);
  /// Tokens at the end are gone from columns and sketches.
  virtual void on_cut();
  virtual void on_observe(const Observation& seen) = 0;
  virtual void on_worth(std::span<float> worth) const = 0;
  /// One with the same parameters that knows nothing yet.
  [[nodiscard]] virtual std::unique_ptr<RetentionPolicy> empty() const = 0;

  std::string name_;
  std::vector<float> parameters_;
  Needs needs_;
  std::uint32_t tokens_ = 0;
  std::vector<std::vector<float>> columns_;
  std::vector<std::uint64_t> sketches_;  ///< Where they are needed.
};

/// A policy that ships.
struct NamedRetentionPolicy {
  std::string_view name;
  std::span<const Parameter> parameters;
  std::unique_ptr<RetentionPolicy> (*make)(const Parameters& parameters);
};

/// All of them.
[[nodiscard]] NEARKV_API std::span<const NamedRetentionPolicy> shipped_retention_policies();

/// Makes one by its name; parameters that are not given have their value. kBadArgument, with a
/// `reason` that lists the names or the range, for what there is not.
NEARKV_API Status make_retention_policy(std::string_view name, const Parameters& given,
                                        std::unique_ptr<RetentionPolicy>* policy,
                                        std::string* reason);

/// How much of one (layer, KV head) of a sequence may stay.
struct RetentionBudget {
  std::uint32_t exact_tokens = 0;
  std::uint32_t demoted_tokens = 0;  ///< The next best ones, kept in a colder form.
  std::uint32_t sinks = 0;           ///< First tokens, which stay whatever they are worth.
  std::uint32_t recent = 0;          ///< Last tokens, which do too.
  std::uint32_t grain = 1;  ///< Tokens that stay or go together: 1, or a page's NKV_PAGE_TOKENS.
};

enum class Kept : std::uint8_t { kExact, kDemoted, kAbsent };

struct Retained {
  std::vector<Kept> tokens;  ///< One each.
  std::uint32_t exact = 0;
  std::uint32_t demoted = 0;
  /// Protected tokens (sinks, recent and pinned ones) that the budget had no room for: they stay.
  std::uint32_t beyond_budget = 0;
};

/// Keeps the protected tokens, then the best others, the earlier of equals first, until one does
/// not fit; a group of `grain` tokens by its mean, and whole. Exact tokens are at most
/// `exact_tokens`, or as many as the protected ones' groups have; demoted ones take what is left of
/// both together.
///
/// `pinned`: tokens that a lease or a user holds. kBadArgument for NaN, a grain of 0, a pinned
/// token that there is not.
NEARKV_API Status retain(std::span<const float> worth, const RetentionBudget& budget,
                         std::span<const std::uint32_t> pinned, Retained* retained);

/// Kept of one (layer, KV head) from its observations. Thread safety: one thread at a time.
class NEARKV_API HeadStatistics {
 public:
  /// `page_tokens`: of a page, at least 1. `window`: queries after which older ones count half.
  explicit HeadStatistics(std::uint32_t page_tokens, float window = 32);

  /// Takes an observation that its policy took too.
  void observe(const Observation& seen);

  [[nodiscard]] std::uint64_t queries() const { return queries_; }

  /// Which share of the pages that a query selects the one before it had selected too, from 0 to 1;
  /// 0 before the second query. The hit rate of a prefetch of the last selection.
  [[nodiscard]] float stability() const;

  /// All that is known, for restore() after a restart.
  [[nodiscard]] std::vector<std::byte> save() const;

  /// Takes up what one of the same page_tokens and window saved. kBadArgument, and no change, for
  /// anything else.
  Status restore(std::span<const std::byte> saved);

 private:
  std::uint32_t page_tokens_;
  float fade_;
  std::uint64_t queries_ = 0;
  std::vector<std::uint32_t> last_pages_;  ///< Selected by the last query, in order.
  float overlap_ = 0;                      ///< Faded, as is what it is a share of.
  float compared_ = 0;
};

/// One (layer, KV head) that asks for a share.
struct HeadDemand {
  std::uint32_t tokens = 0;             ///< That it has, and more than which it does not get.
  float stability = 0;                  ///< HeadStatistics'.
  std::uint32_t steps_to_next_use = 0;  ///< Of the sequence, by an agents' step graph.
};

/// The names that share_budget() takes, each with a line of what it does.
struct NamedBudget {
  std::string_view name;
  std::string_view text;
  std::span<const Parameter> parameters;
};
[[nodiscard]] NEARKV_API std::span<const NamedBudget> shipped_budgets();

/// Deals out `total_tokens` among heads: each `shares[i]` is at most its head's tokens, their sum
/// is the smaller of the total and all tokens there are, and equals get equal shares but for one
/// token, the first ones more.
///
/// kBadArgument, with a `reason` that lists the names or the range, for a rule or a parameter that
/// there is not, and for demands that are not finite or are negative.
NEARKV_API Status share_budget(std::string_view rule, const Parameters& given,
                               std::span<const HeadDemand> heads, std::uint64_t total_tokens,
                               std::vector<std::uint32_t>* shares, std::string* reason);

/// The sketch of a key; of 64 zeros for one without elements. The projections are always the same.
[[nodiscard]] NEARKV_API std::uint64_t key_sketch(std::span<const float> key);

/// The cosine between two keys, as their sketches tell: cos(pi * differing bits / 64), which is off
/// by about 0.2 at right angles and by less where keys are alike.
[[nodiscard]] NEARKV_API float sketched_cosine(std::uint64_t a, std::uint64_t b);

/// The `count` pages, of `page_tokens` tokens each, that are worth most together; the earlier of
/// equals first, those worth nothing left out. heavy_hitters with a decay of 0.5 makes this the
/// last queries' selection, which the next one mostly repeats.
[[nodiscard]] NEARKV_API std::vector<std::uint32_t> next_pages(std::span<const float> worth,
                                                               std::uint32_t page_tokens,
                                                               std::size_t count);

/// Counts what prefetches were good for. Thread safety: one thread at a time.
class NEARKV_API PrefetchRecord {
 public:
  /// Pages that were fetched before a query, and those that it used.
  void add(std::span<const std::uint32_t> fetched, std::span<const std::uint32_t> used);

  /// Share of the used pages that had been fetched; 0 before any.
  [[nodiscard]] float coverage() const;

  /// Share of the fetched pages that were used; 0 before any.
  [[nodiscard]] float accuracy() const;

 private:
  std::uint64_t fetched_ = 0;
  std::uint64_t used_ = 0;
  std::uint64_t hits_ = 0;
};

}  // namespace nearkv
