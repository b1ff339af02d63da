// Speed and memory of the object tier's indexes, beside std::unordered_map behind one mutex.
#include <CLI/CLI.hpp>
#include <cstdio>
#include <exception>

#include "report.hpp"

int main(int argc, char** argv) try {
  nearkv::bench::Options options;
  std::string json;
  std::vector<std::string> only{"flat", "extents", "prefix"};
  CLI::App app(
      "Measures the flat index, the prefix tree and the extent allocator of the object tier");
  app.add_option("--keys", options.keys, "keys and blocks in the indexes")->capture_default_str();
  app.add_option("--threads", options.threads, "for what scales")->capture_default_str();
  app.add_option("--repeats", options.repeats, "of which medians are taken")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--seed", options.seed, "of all that is drawn")->capture_default_str();
  app.add_option("--trace", options.trace, "requests with hash_ids, one JSON object a line")
      ->check(CLI::ExistingFile);
  app.add_option("--only", only, "some of flat, extents, prefix")
      ->check(CLI::IsMember({"flat", "extents", "prefix"}));
  app.add_option("--json", json, "write the figures to this file");
  CLI11_PARSE(app, argc, argv);
  nearkv::bench::Report report;
  for (const std::string& part : only) {
    if (part == "flat") nearkv::bench::bench_flat(options, &report);
    if (part == "extents") nearkv::bench::bench_extents(options, &report);
    if (part == "prefix") nearkv::bench::bench_prefix(options, &report);
  }
  if (json.empty() || report.write_json(json)) return 0;
  std::fprintf(stderr, "cannot write %s\n", json.c_str());
  return 1;
} catch (const std::exception& failure) {
  std::fprintf(stderr, "%s\n", failure.what());
  return 1;
}
