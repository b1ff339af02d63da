// What a search by midpoints computes, apart from what it decides (sections 1.5, 5 and 6).
#ifndef NEARKV_MODEL_PLANE_STEPS_HPP_
#define NEARKV_MODEL_PLANE_STEPS_HPP_

#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "midpoints.hpp"
#include "page_list.hpp"
#include "query.hpp"

namespace nearkv::model {

/// The steps of one search over one list, which a device may take its own way: they give what
/// ModelPlaneSteps gives. Acceptance of pages, order of steps and bytes are the search's.
class PlaneSteps {
 public:
  PlaneSteps() = default;
  PlaneSteps(const PlaneSteps&) = delete;
  PlaneSteps& operator=(const PlaneSteps&) = delete;
  virtual ~PlaneSteps() = default;

  /// Streams `planes` planes of every page (5.1). Called once and first; `pages` outlive the steps.
  virtual void scan(const ListedPages& pages, int planes) = 0;

  /// Visible tokens in bins at or above T(count) of any row; all of them if they are at most
  /// `count` (5.3).
  virtual TokenSet best(uint64_t count) = 0;

  /// S of each token of a set for every row, in list order: [token][row] (1.5).
  virtual std::vector<int64_t> scores(const TokenSet& tokens) = 0;

  /// Those of `tokens` whose upper bound after `planes` planes reaches any row's τ, of which `taus`
  /// holds one a row (6, steps 2 and 3). `sixteenths` as radius() takes them.
  virtual TokenSet alive(const TokenSet& tokens, int planes, uint32_t sixteenths,
                         std::span<const int64_t> taus) = 0;

  /// Moves the midpoints of `tokens` by plane `plane` (5.2).
  virtual void sharpen(const TokenSet& tokens, int plane) = 0;
};

/// The model's way. The query outlives it.
class ModelPlaneSteps final : public PlaneSteps {
 public:
  ModelPlaneSteps(const Query& query, int key_exponent)
      : query_(query), key_exponent_(key_exponent) {}

  void scan(const ListedPages& pages, int planes) override;
  TokenSet best(uint64_t count) override;
  std::vector<int64_t> scores(const TokenSet& tokens) override;
  TokenSet alive(const TokenSet& tokens, int planes, uint32_t sixteenths,
                 std::span<const int64_t> taus) override;
  void sharpen(const TokenSet& tokens, int plane) override;

 private:
  const Query& query_;
  int key_exponent_;
  const ListedPages* pages_ = nullptr;
  std::optional<Midpoints> midpoints_;
};

}  // namespace nearkv::model

#endif  // NEARKV_MODEL_PLANE_STEPS_HPP_
