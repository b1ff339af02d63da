// A command's list as codes tell it: opened and scanned, and read further where a command wants
// that (sections 12 and 13 of ARITHMETIC.md).
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <vector>

#include "attend/exact.hpp"
#include "attend/query.hpp"
#include "attend/traffic.hpp"
#include "codes/code_choice.hpp"
#include "codes/code_errors.hpp"
#include "codes/code_query.hpp"
#include "codes/code_state.hpp"
#include "codes/code_sums.hpp"
#include "codes/page_scorer.hpp"
#include "device/workers.hpp"
#include "page/page_list.hpp"

namespace nearkv {

/// What is to be read of a page besides what has been.
struct PageDemand {
  std::uint32_t page = 0;  ///< Among the listed ones.
  std::uint64_t key_rows = 0;
  std::uint64_t value_rows = 0;
};

/// What a scan makes of each page.
enum class ScanFor {
  kSearch,   ///< Scores by a search's own scale (14.2),
  kWeights,  ///< scores and weights,
  kErrors,   ///< and its granules' errors.
};

struct CodedQuestion {
  const PageList& list;
  const Visibility& visibility;
  const Query& query;
  Workers* workers;
  ScanFor scan_for;
  float scale = 1;            ///< Not of a search.
  std::size_t value_dim = 0;  ///< 0: values are not looked at.
};

class RowErrors;

/// Buffers are kept between commands. Thread safety: one command at a time.
class CodedList {
 public:
  CodedList();
  ~CodedList();
  CodedList(const CodedList&) = delete;
  CodedList& operator=(const CodedList&) = delete;

  /// Opens and scans a list. *is_served is false if codes do not serve it: if no page has any, if
  /// something is wrong with its pages that an exact command says, or if the scan costs as much as
  /// reading all rows. `question` must outlive what follows.
  Outcome scan(const CodedQuestion& question, RowErrors* errors, bool* is_served);

  /// Whether codes cannot say a score (12.3).
  [[nodiscard]] bool is_loud() const { return is_loud_; }
  [[nodiscard]] bool hides_nonfinite() const { return hides_nonfinite_; }
  [[nodiscard]] std::uint64_t dense_bursts() const { return dense_bursts_; }
  /// Whether a key row is a value row, too.
  [[nodiscard]] bool shares_rows() const { return shares_rows_; }
  [[nodiscard]] CodeState& state() { return state_; }
  [[nodiscard]] const CodeState& state() const { return state_; }
  [[nodiscard]] const Traffic& traffic() const { return traffic_; }
  [[nodiscard]] Traffic& traffic() { return traffic_; }

  /// What rows cost that are read at once.
  [[nodiscard]] Traffic costs(std::span<const PageDemand> demands) const;

  /// The rows of pages without codes, which count as scanned: to be read first of all.
  [[nodiscard]] std::span<const PageDemand> plain() const { return plain_; }

  /// Reads rows, and counts them. Demands are of different pages, ascending. `scores`, if not null,
  /// gets S of key rows, [rows] for each token, in the order of demands.
  Outcome read_rows(std::span<const PageDemand> demands, std::vector<std::int64_t>* scores);

  /// Scores tokens of each page anew by `planes` planes: those of `tokens`, by page.
  void refine(std::span<const std::uint32_t> pages, std::span<const std::uint64_t> tokens,
              int planes);

  /// Reads planes of granules, and makes scores, weights and errors of their pages anew, after
  /// chosen rows have been read. `errors` measures what the list was scanned with.
  void read_planes(std::span<const PageChoice> choices, RowErrors* errors);

  /// Weighs pages of which rows were read.
  void weigh(std::span<const std::uint32_t> pages);

  /// Sums of all pages.
  void sum(CodeSums* sums);

  /// Takes pages that are going to change out of sums, and has them in again: the sums are those of
  /// all pages then.
  void take_out(std::span<const std::uint32_t> pages, CodeSums* sums);
  void put_back(std::span<const std::uint32_t> pages, CodeSums* sums);

 private:
  struct Worker;

  bool begin(const CodedQuestion& question, RowErrors* errors);
  bool find_gains();
  Status open_page(Worker* worker, std::size_t place);
  void score_pages(Worker* worker, std::size_t first, std::size_t end);
  [[nodiscard]] int search_top() const;
  template <typename Visit>
  void for_each_run(const Visit& visit);
  void fetch_next(const PageView& view, const PageDemand& next) const;
  void fetch_planes(const PageChoice& choice) const;
  void fetch_values(std::size_t page) const;
  bool take_planes(const PageChoice& choice, PageScorer* scorer);
  const std::vector<std::int64_t>& find_references();
  template <typename PageAt>
  void add_pages(std::size_t count, const PageAt& page_at, int sign, CodeSums* sums);
  void take_key_rows(const PageDemand& demand, const std::int64_t* scores);

  const CodedQuestion* question_ = nullptr;
  RowErrors* errors_ = nullptr;
  CodeQuery query_;
  CodeState state_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::optional<ExactScorer> scorer_;
  std::vector<RowSource> value_sources_;  // By page, of those of which value rows were read.
  PageView gains_;                        // The page whose gains hold.
  std::vector<PageDemand> plain_;
  std::vector<std::size_t> places_;  // Of demands' scores.
  std::vector<std::int64_t> references_;
  Traffic traffic_;
  std::uint64_t dense_bursts_ = 0;
  bool is_loud_ = false;
  bool hides_nonfinite_ = false;
  bool shares_rows_ = false;
};

}  // namespace nearkv
