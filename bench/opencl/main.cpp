// What the OpenCL kernels take by the device's own clock: nearkv_opencl_bench --json FILE [--device
// N]
// [--tokens N] [--repeat N].
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <random>
#include <stdexcept>
#include <string>
#include <vector>

#include "nkv_abi.h"
#include "opencl/runtime.hpp"

namespace {

using nearkv::opencl::Runtime;

constexpr std::size_t kChannels = 128;
constexpr std::size_t kRows = 8;
constexpr std::size_t kPlanes = 3;

// Any bytes, of which bf16 elements are finite and of moderate size.
std::vector<std::uint16_t> some_elements(std::size_t count, unsigned seed) {
  std::mt19937 random(seed);
  std::vector<std::uint16_t> elements(count);
  for (std::uint16_t& element : elements) {
    element = static_cast<std::uint16_t>((random() & 0x87ff) | 0x3800);
  }
  return elements;
}

// Device buffers for one pass over a list of pages.
struct Work {
  Work(Runtime& device, std::size_t token_count)
      : runtime(device), tokens(token_count), pages(token_count / NKV_PAGE_TOKENS) {
    const auto elements = some_elements(tokens * kChannels, /*seed=*/1);
    rows = runtime.upload<std::uint16_t>(elements);
    query = runtime.upload<std::int32_t>(std::vector<std::int32_t>(kRows * kChannels, 1 << 20));
    steps = runtime.upload<std::int32_t>(std::vector<std::int32_t>(pages, -10));
    visible = runtime.upload<std::uint64_t>(std::vector<std::uint64_t>(pages, ~0ULL));
    scores = runtime.allocate(tokens * kRows * sizeof(std::int64_t));
    weights = runtime.allocate(pages * kRows * kChannels * sizeof(std::int32_t));
    sums = runtime.allocate(pages * kRows * 5 * sizeof(std::int64_t));
    midpoints = runtime.allocate(tokens * kRows * sizeof(std::int16_t));
    planes = runtime.allocate(tokens * kChannels * sizeof(std::uint16_t));
    references = runtime.allocate(pages * kChannels);
  }

  void run() {
    constexpr auto kWidth = static_cast<cl_uint>(kChannels);
    runtime.run("score", cl::NDRange(tokens, kRows), rows, static_cast<cl_uint>(2 * kChannels),
                kWidth, cl_int{0}, cl_int{NKV_DTYPE_BF16}, rows, query, cl_int{127}, scores);
    runtime.run("fold", cl::NDRange(pages, kRows), rows, steps, query, kWidth, cl_int{127}, weights,
                sums);
    runtime.run("midpoints", cl::NDRange(tokens, kRows), rows, static_cast<cl_uint>(kPlanes),
                kWidth, weights, sums, visible, midpoints);
    runtime.run("exponent_delta_encode", cl::NDRange(kChannels, pages), rows, references, planes);
    runtime.run("exponent_delta_decode", cl::NDRange(kChannels, pages), references, planes, rows);
    std::vector<std::int16_t> first(1);
    runtime.download<std::int16_t>(midpoints, first);  // Waits for all of them.
  }

  Runtime& runtime;
  std::size_t tokens;
  std::size_t pages;
  cl::Buffer rows, query, steps, visible, scores, weights, sums, midpoints, planes, references;
};

// What a kernel reads of pages, in bytes.
std::size_t page_bytes(const std::string& kernel, const Work& work) {
  if (kernel == "fold") return work.pages * kChannels * sizeof(std::uint16_t);
  if (kernel == "midpoints") return work.tokens * kChannels / 8 * kPlanes;
  return work.tokens * kChannels * sizeof(std::uint16_t);
}

// A kernel's GB/s in each pass.
using Rates = std::map<std::string, std::vector<double>>;

Rates measure(Runtime& runtime, std::size_t tokens, unsigned repeat) {
  Work work(runtime, tokens / NKV_PAGE_TOKENS * NKV_PAGE_TOKENS);
  Rates rates;
  for (unsigned pass = 0; pass <= repeat; ++pass) {
    const auto before = runtime.times();
    work.run();
    if (pass == 0) continue;  // Compiles for this size, touches memory.
    for (const auto& [kernel, time] : runtime.times()) {
      const auto found = before.find(kernel);
      const auto ns = time.device_ns - (found == before.end() ? 0 : found->second.device_ns);
      rates[kernel].push_back(static_cast<double>(page_bytes(kernel, work)) /
                              static_cast<double>(std::max<std::uint64_t>(ns, 1)));
    }
    std::printf("pass %u of %u\n", pass, repeat);
    std::fflush(stdout);
  }
  return rates;
}

int parse_and_run(int argc, char** argv) {
  CLI::App app{"Times of the OpenCL kernels by the device's clock"};
  std::string file;
  unsigned number = 0;
  std::size_t tokens = 16384;
  unsigned repeat = 5;
  app.add_option("--json", file, "where the rows go")->required();
  app.add_option("--device", number, "the device's number, over all platforms");
  app.add_option("--tokens", tokens, "tokens of 128 channels, a multiple of 64")
      ->check(CLI::Range(64, 1 << 20));
  app.add_option("--repeat", repeat, "passes")->check(CLI::Range(1, 1000));
  CLI11_PARSE(app, argc, argv);
  std::string reason;
  const auto runtime = Runtime::open(number, &reason);
  nlohmann::json rows = nlohmann::json::array();
  if (runtime != nullptr) {
    for (const auto& [kernel, rates] : measure(*runtime, tokens, repeat)) {
      rows.push_back({{"kernel", kernel}, {"gbytes_per_s", rates}});
    }
    if (const cl_int error = runtime->take_error(); error != CL_SUCCESS) {
      throw std::runtime_error("OpenCL error " + std::to_string(error));
    }
  }
  std::ofstream out(file);
  out << nlohmann::json{{"device", runtime == nullptr ? "" : runtime->name()},
                        {"missing", reason},
                        {"tokens", tokens},
                        {"results", rows}};
  return out.good() ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    return parse_and_run(argc, argv);
  } catch (const std::exception& failure) {
    std::fprintf(stderr, "nearkv_opencl_bench: %s\n", failure.what());
    return 1;
  }
}
