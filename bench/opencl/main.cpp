// What the OpenCL kernels take by the device's own clock: nearkv_opencl_bench --json FILE
// [--device N] [--tokens N] [--repeat N].
#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <exception>
#include <fstream>
#include <map>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "nkv_abi.h"
#include "opencl/runtime.hpp"
#include "work.hpp"

namespace {

using nearkv::opencl::Runtime;

// A kernel's GB/s in each pass.
using Rates = std::map<std::string, std::vector<double>>;

Rates measure(Runtime& runtime, std::size_t tokens, unsigned repeat) {
  nearkv::bench::Work work(runtime, tokens / NKV_PAGE_TOKENS * NKV_PAGE_TOKENS);
  Rates rates;
  std::map<std::string, std::uint64_t> taken_ns;  // By all passes before.
  for (unsigned pass = 0; pass <= repeat; ++pass) {
    work.run();
    for (const auto& [kernel, time] : runtime.times()) {
      const auto ns = time.device_ns - std::exchange(taken_ns[kernel], time.device_ns);
      if (pass == 0) continue;  // Compiles for this size, touches memory.
      rates[kernel].push_back(static_cast<double>(work.bytes().at(kernel)) /
                              static_cast<double>(std::max<std::uint64_t>(ns, 1)));
    }
    std::printf("pass %u of %u\n", pass, repeat);
    std::fflush(stdout);
  }
  return rates;
}

}  // namespace

int main(int argc, char** argv) try {
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
} catch (const std::exception& failure) {
  std::fprintf(stderr, "nearkv_opencl_bench: %s\n", failure.what());
  return 1;
}
