#include "opencl/device_steps.hpp"

#include <algorithm>
#include <numeric>

#include "opencl/scores.hpp"

namespace nearkv::opencl {

namespace {

constexpr std::size_t kFoldSums = 5;  // FOLD_SUMS of planes.cl.

// Calls `work` with at most kMostPages places at a time.
template <typename Work>
void in_runs(std::span<const std::uint32_t> places, Work work) {
  while (!places.empty()) {
    const std::size_t count = std::min(places.size(), kMostPages);
    work(places.first(count));
    places = places.subspan(count);
  }
}

}  // namespace

DevicePlaneSteps::DevicePlaneSteps(Runtime& runtime, const model::Query& query, int key_exponent)
    : runtime_(runtime),
      query_(query),
      key_exponent_(key_exponent),
      query_on_device_(upload_query(runtime, query)) {}

void DevicePlaneSteps::scan(const model::ListedPages& pages, int planes) {
  pages_ = &pages;
  scanned_planes_ = planes;
  if (pages.size() == 0) return;
  channels_ = pages[0].page.header().head_dim;
  const std::size_t rows = query_.rows();
  visible_ = runtime_.upload<std::uint64_t>(pages.visible());
  sums_ = runtime_.allocate(pages.size() * rows * kFoldSums * sizeof(std::int64_t));
  midpoints_ = runtime_.allocate(pages.size() * NKV_PAGE_TOKENS * rows * sizeof(std::int16_t));
  std::vector<std::uint32_t> places(pages.size());
  std::iota(places.begin(), places.end(), 0U);
  in_runs(places, [&](std::span<const std::uint32_t> run) {
    const FoldedPages folded = fold(run);
    runtime_.run("midpoints", cl::NDRange(folded.tokens(), rows), planes_of(folded, 0, planes),
                 static_cast<cl_uint>(planes), channels_, folded.places_on_device, folded.weights,
                 sums_, visible_, midpoints_);
  });
}

DevicePlaneSteps::FoldedPages DevicePlaneSteps::fold(std::span<const std::uint32_t> places) {
  std::vector<std::byte> digests;
  std::vector<std::int32_t> steps;
  for (const std::uint32_t place : places) {
    const model::Page& page = (*pages_)[place].page;
    const auto digest = page.array(NKV_PAGE_ARRAY_K_DIGEST);
    digests.insert(digests.end(), digest.begin(), digest.end());
    steps.push_back(page.header().k_step_exponent);
  }
  const std::size_t rows = query_.rows();
  const std::size_t weights = places.size() * rows * channels_;
  FoldedPages folded{.places = {places.begin(), places.end()},
                     .places_on_device = runtime_.upload<std::uint32_t>(places),
                     .weights = runtime_.allocate(weights * sizeof(std::int32_t))};
  runtime_.run("fold", cl::NDRange(in_groups(places.size()), rows),
               runtime_.upload<std::byte>(digests), runtime_.upload<std::int32_t>(steps),
               folded.places_on_device, static_cast<cl_uint>(places.size()), query_on_device_,
               channels_, cl_int{key_exponent_}, folded.weights, sums_);
  return folded;
}

cl::Buffer DevicePlaneSteps::planes_of(const FoldedPages& pages, int first, int end) {
  std::vector<std::byte> bits;
  for (const std::uint32_t place : pages.places) {
    for (int plane = first; plane < end; ++plane) {
      const auto array = static_cast<nkv_page_array>(NKV_PAGE_ARRAY_K_PLANE0 + plane);
      const auto of_page = (*pages_)[place].page.array(array);
      bits.insert(bits.end(), of_page.begin(), of_page.end());
    }
  }
  return runtime_.upload<std::byte>(bits);
}

cl::NDRange DevicePlaneSteps::all_tokens() const {
  return {pages_->size() * NKV_PAGE_TOKENS, query_.rows()};
}

model::TokenSet DevicePlaneSteps::download_set(const cl::Buffer& set) {
  model::TokenSet tokens = pages_->none();
  runtime_.download<std::uint64_t>(set, tokens);
  return tokens;
}

cl::Buffer DevicePlaneSteps::thresholds(std::uint64_t count) {
  const std::size_t rows = query_.rows();
  const cl::Buffer bins = runtime_.zeros<std::uint32_t>(rows * NKV_HISTOGRAM_BINS);
  runtime_.run("count_bins", all_tokens(), midpoints_, visible_, bins);
  cl::Buffer thresholds = runtime_.allocate(rows * sizeof(std::int32_t));
  runtime_.run("threshold", cl::NDRange(in_groups(rows)), bins, static_cast<cl_uint>(rows),
               cl_ulong{count}, thresholds);
  return thresholds;
}

model::TokenSet DevicePlaneSteps::best(std::uint64_t count) {
  model::TokenSet visible = pages_->visible();
  if (model::count_tokens(visible) <= count) return visible;
  const cl::Buffer found = runtime_.zeros<std::uint64_t>(pages_->size());
  runtime_.run("best_tokens", all_tokens(), midpoints_, visible_, thresholds(count), found);
  return download_set(found);
}

std::vector<std::int64_t> DevicePlaneSteps::scores(const model::TokenSet& tokens) {
  const std::size_t rows = query_.rows();
  std::vector<std::int64_t> scores(model::count_tokens(tokens) * rows);
  std::size_t done = 0;
  for (std::size_t first = 0; first < pages_->size();) {
    const PageRun run = run_from(*pages_, first);
    const PackedRows keys = pack_keys(runtime_, *pages_, run, tokens);
    first = run.end;
    if (keys.count == 0) continue;
    const cl::Buffer found = scores_of(runtime_, keys, query_on_device_, rows, key_exponent_);
    runtime_.download<std::int64_t>(found, std::span(scores).subspan(done, keys.count * rows));
    done += keys.count * rows;
  }
  return scores;
}

model::TokenSet DevicePlaneSteps::alive(const model::TokenSet& tokens, int planes,
                                        std::uint32_t sixteenths,
                                        std::span<const std::int64_t> taus) {
  if (model::count_tokens(tokens) == 0) return tokens;
  const std::size_t rows = query_.rows();
  const cl::Buffer radii = runtime_.allocate(pages_->size() * rows * sizeof(std::int64_t));
  runtime_.run("digest_bound", cl::NDRange(in_groups(pages_->size()), rows), sums_,
               static_cast<cl_uint>(pages_->size()), cl_int{planes}, cl_uint{sixteenths}, radii);
  const cl::Buffer alive = runtime_.zeros<std::uint64_t>(pages_->size());
  runtime_.run("alive_tokens", all_tokens(), midpoints_, sums_, radii,
               cl_int{planes - scanned_planes_}, runtime_.upload<std::int64_t>(taus),
               runtime_.upload<std::uint64_t>(tokens), alive);
  return download_set(alive);
}

void DevicePlaneSteps::sharpen(const model::TokenSet& tokens, int plane) {
  std::vector<std::uint32_t> places;
  for (std::uint32_t page = 0; page < tokens.size(); ++page) {
    if (tokens[page] != 0) places.push_back(page);
  }
  const cl::Buffer of_tokens = runtime_.upload<std::uint64_t>(tokens);
  in_runs(places, [&](std::span<const std::uint32_t> run) {
    const FoldedPages folded = fold(run);
    runtime_.run("sharpen", cl::NDRange(folded.tokens(), query_.rows()),
                 planes_of(folded, plane - 1, plane), cl_int{plane}, channels_,
                 folded.places_on_device, folded.weights, sums_, of_tokens, midpoints_);
  });
}

}  // namespace nearkv::opencl
