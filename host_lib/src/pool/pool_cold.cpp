// Compressed pages in queries: left out, or decoded near the data for one call.
#include <algorithm>
#include <cmath>
#include <iterator>
#include <limits>

#include "pool/pool_impl.hpp"

namespace nearkv {
namespace {

constexpr float kNothing = -std::numeric_limits<float>::infinity();
constexpr std::uint32_t kNoToken = std::numeric_limits<std::uint32_t>::max();

/// Makes `whole` the attention to its tokens and those of `part`.
void merge(const AttendRequest& part, const AttendRequest& whole) {
  const std::size_t channels = whole.output.size() / whole.rows;
  for (std::size_t row = 0; row < whole.rows; ++row) {
    const double most = std::max(whole.lse[row], part.lse[row]);
    if (most == kNothing) continue;
    const double weight = std::exp(whole.lse[row] - most);
    const double part_weight = std::exp(part.lse[row] - most);
    const double sum = weight + part_weight;
    const auto mix = [&](float a, float b) {
      return static_cast<float>((weight * a + part_weight * b) / sum);
    };
    for (std::size_t i = row * channels; i < (row + 1) * channels; ++i) {
      whole.output[i] = mix(whole.output[i], part.output[i]);
    }
    whole.lse[row] = static_cast<float>(most + std::log(sum));
  }
}

struct ScoredId {
  float score = kNothing;
  std::uint32_t id = kNoToken;
};

/// Makes each row of `whole` the best of its own and of the part's.
void merge(const Pool::TopKRequest& part, const Pool::TopKRequest& whole) {
  const std::size_t k = whole.top_k;
  std::vector<ScoredId> best;
  for (std::size_t row = 0; row < whole.counts.size(); ++row) {
    best.clear();
    for (const Pool::TopKRequest* const from : {&whole, &part}) {
      for (std::size_t i = row * k; i < row * k + from->counts[row]; ++i) {
        best.push_back({from->scores[i], from->ids[i]});
      }
    }
    std::ranges::sort(best, [](const ScoredId& a, const ScoredId& b) {
      return a.score != b.score ? a.score > b.score : a.id < b.id;
    });
    whole.counts[row] = static_cast<std::uint32_t>(std::min(best.size(), k));
    best.resize(k);
    for (std::size_t i = 0; i < k; ++i) {
      whole.ids[row * k + i] = best[i].id;
      whole.scores[row * k + i] = best[i].score;
    }
  }
}

/// Makes ids of tokens in a run of pages those of the list that has these pages as `numbers`.
void renumber(std::span<const std::uint32_t> numbers, const Pool::TopKRequest& request) {
  for (std::uint32_t& id : request.ids) {
    if (id == kNoToken) continue;
    id = numbers[id / NKV_PAGE_TOKENS] * NKV_PAGE_TOKENS + id % NKV_PAGE_TOKENS;
  }
}

}  // namespace

bool Pool::Impl::has_cold(const HeadList& list) const {
  return !cold_.empty() && std::ranges::any_of(list.entries, [&](const nkv_page_entry& entry) {
    return cold_.contains(entry.page);
  });
}

std::vector<std::uint32_t> Pool::Impl::pages_that_are(Temperature temperature,
                                                      const HeadList& list) const {
  std::vector<std::uint32_t> numbers;
  for (std::uint32_t number = 0; number < list.entries.size(); ++number) {
    const bool is_cold = cold_.contains(list.entries[number].page);
    if (is_cold == (temperature == Temperature::kCold)) numbers.push_back(number);
  }
  return numbers;
}

Status Pool::Impl::check_cold(ColdPages cold, const std::string& what) {
  if (cold <= ColdPages::kDecode) return Status::kOk;
  return fail(Status::kBadArgument, what,
              "there is no ColdPages " + std::to_string(static_cast<int>(cold)) +
                  "; 0 refuses compressed pages, 1 skips them, 2 decodes them");
}

Status Pool::Impl::warm_pages(const HeadList& list, bool is_limited, const std::string& what,
                              PageRun* pages) {
  if (!has_cold(list)) return Status::kOk;
  if (is_limited) {
    return fail(Status::kBadArgument, what,
                "page " + std::to_string(pages_that_are(Temperature::kCold, list).front()) +
                    " is compressed, and such pages allow no window and no limit of tokens; leave "
                    "both 0, or transcode the page to codec NONE first");
  }
  std::vector<nkv_page_entry> warm;
  std::ranges::copy_if(list.entries, std::back_inserter(warm),
                       [&](const nkv_page_entry& entry) { return !cold_.contains(entry.page); });
  if (!batch_->reserve(warm.size() * sizeof(nkv_page_entry), &pages->address)) {
    return Status::kQueueFull;
  }
  batch_->write(pages->address, std::as_bytes(std::span(warm)));
  pages->tokens = static_cast<std::uint32_t>(warm.size() * NKV_PAGE_TOKENS);
  return Status::kOk;
}

Status Pool::Impl::each_decoded_run(const HeadList& list, std::uint64_t beside_bytes,
                                    const std::string& what, const UseRun& use) {
  const std::vector<std::uint32_t> cold = pages_that_are(Temperature::kCold, list);
  const Status readable = check_readable(list, cold, what);
  if (readable != Status::kOk) return readable;
  const std::size_t most = pages_staged_together(beside_bytes);
  for (std::span<const std::uint32_t> left(cold); !left.empty();) {
    const auto numbers = left.first(std::min(most, left.size()));
    Staged staged;
    Status status = stage_transcoded(list, numbers, NKV_CODEC_NONE, what, &staged);
    if (status != Status::kOk) return status;
    batch_->go_on();
    status =
        use(numbers, {staged.list, static_cast<std::uint32_t>(numbers.size() * NKV_PAGE_TOKENS)});
    if (status != Status::kOk) return status;
    left = left.subspan(numbers.size());
  }
  return Status::kOk;
}

AttendOptions Pool::Impl::of_parts(const HeadList& list, const AttendOptions& options) const {
  AttendOptions chosen = options;
  const bool is_bounded = options.mode == NKV_ATTEND_MODE_BOUNDED;
  if (is_bounded && options.cold == ColdPages::kDecode && has_cold(list)) {
    chosen.mode = NKV_ATTEND_MODE_DENSE;
  }
  return chosen;
}

Status Pool::Impl::add_decoded(const AttendRequest& request, const AttendOptions& options) {
  const HeadList* const list = find_head(request.sequence, request.layer, request.kv_head);
  if (list == nullptr || !has_cold(*list)) return Status::kOk;
  const std::string what =
      "attending to " + place(request.sequence, request.layer, request.kv_head) + ", decoded";
  std::vector<float> output(request.output.size());
  std::vector<float> lse(request.lse.size());
  const AttendOptions chosen = of_parts(*list, options);
  if (chosen.mode != options.mode) ++stats_.dense_fallbacks;
  AttendRequest part = request;
  part.output = output;
  part.lse = lse;
  part.bound = {};  // No part has one.
  const std::uint64_t beside_bytes =
      request.query.size() + request.output.size_bytes() + 2 * request.lse.size_bytes();
  const auto attend_to = [&](std::span<const std::uint32_t> numbers, const PageRun& pages) {
    std::uint64_t result = 0;
    Status status = add_attend_to(pages, part, chosen, &result);
    if (status == Status::kQueueFull) {
      return fail(status, what, "the staging area is too small for the request beside a page");
    }
    if (status == Status::kOk) status = run_batch();
    if (status != Status::kOk) return status;
    const nkv_completion& completion = batch_->completions().front();
    if (completion.status != NKV_STATUS_OK) {
      return fail_completion(completion, what, numbers);
    }
    take_result(part, result);
    merge(part, request);
    return Status::kOk;
  };
  return each_decoded_run(*list, beside_bytes + 4UL * NKV_PAGE_GRAIN_BYTES, what, attend_to);
}

Status Pool::Impl::merge_top_k(const HeadList& list, std::span<const std::uint32_t> warm,
                               const TopKRequest& request) {
  renumber(warm, request);
  if (request.cold != ColdPages::kDecode) return Status::kOk;
  std::vector<std::uint32_t> ids(request.ids.size());
  std::vector<float> scores(request.scores.size());
  std::vector<std::uint32_t> counts(request.counts.size());
  TopKRequest part = request;
  part.ids = ids;
  part.scores = scores;
  part.counts = counts;
  const std::uint64_t beside_bytes = request.query.size() + request.weights.size_bytes() +
                                     request.ids.size_bytes() + request.scores.size_bytes() +
                                     request.counts.size_bytes();
  const auto search = [&](std::span<const std::uint32_t> numbers, const PageRun& pages) {
    const Status status = top_k_of(pages, numbers, part);
    if (status != Status::kOk) return status;
    renumber(numbers, part);
    merge(part, request);
    return Status::kOk;
  };
  const std::string what =
      "searching " + place(request.sequence, request.layer, request.kv_head) + ", decoded";
  return each_decoded_run(list, beside_bytes + 4UL * NKV_PAGE_GRAIN_BYTES, what, search);
}

Status Pool::Impl::codecs(std::uint64_t id, std::uint16_t layer, std::uint16_t kv_head,
                          std::vector<std::uint8_t>* codecs) {
  codecs->clear();
  const HeadList* const list = find_head(id, layer, kv_head);
  if (list == nullptr) {
    return fail(Status::kNotFound, "telling the codecs of " + place(id, layer, kv_head));
  }
  for (const nkv_page_entry& entry : list->entries) codecs->push_back(codec_of(entry));
  return Status::kOk;
}

}  // namespace nearkv
