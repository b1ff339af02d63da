// nearkv_copy_bench: what the object tier's bytes cost to move, beside what else moves them.
#include <CLI/CLI.hpp>
#include <filesystem>
#include <iostream>

#include "cases.hpp"

int main(int argc, char** argv) try {
  CLI::App app("Rates of the object tier's copies, each beside its peer in the same run.");
  nearkv::bench::Options options;
  std::string json_path;
  int rounds = 9;
  std::size_t working_set_mib = options.working_set_bytes >> 20;
  std::vector<std::size_t> object_kib = {4, 64, 256, 1024, 2048, 65536};
  options.threads = {1, 2};
  app.add_option("--json", json_path, "Write the results to this file");
  app.add_option("--rounds", rounds, "Measured runs of each contender")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--working-set-mib", working_set_mib, "Sources, and as much again of targets")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--object-kib", object_kib, "Sizes of objects")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  app.add_option("--threads", options.threads, "Numbers of threads")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  std::vector<std::string> groups = {"copy", "seal", "file"};
  app.add_option("--groups", groups, "What to measure")
      ->check(CLI::IsMember({"copy", "seal", "file"}))
      ->capture_default_str();
  std::size_t file_mib = options.file_bytes >> 20;
  options.directory = std::filesystem::temp_directory_path();
  app.add_option("--directory", options.directory, "Where the file of blocks is made")
      ->check(CLI::ExistingDirectory)
      ->capture_default_str();
  app.add_option("--file-mib", file_mib, "Its size")
      ->check(CLI::PositiveNumber)
      ->capture_default_str();
  CLI11_PARSE(app, argc, argv);
  options.working_set_bytes = working_set_mib << 20;
  options.file_bytes = file_mib << 20;
  for (const std::size_t kib : object_kib) options.object_bytes.push_back(kib << 10);

  nearkv::bench::Report report(rounds);
  for (const std::string& group : groups) {
    if (group == "copy") nearkv::bench::compare_copies(options, &report);
    if (group == "seal") nearkv::bench::compare_seals(options, &report);
    if (group == "file") nearkv::bench::compare_files(options, &report);
  }
  return nearkv::bench::save_results(json_path, report.results());
} catch (const std::exception& error) {
  std::cerr << error.what() << '\n';
  return 1;
}
