#include "rounds.hpp"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <iostream>
#include <latch>
#include <thread>

namespace nearkv::bench {
namespace {

double seconds_of(const std::function<void()>& run) {
  const auto begin = std::chrono::steady_clock::now();
  run();
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

double median(std::vector<double> values) {
  const auto middle = values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2);
  std::nth_element(values.begin(), middle, values.end());
  return *middle;
}

}  // namespace

void Report::compare(const Comparison& comparison, const std::vector<Contender>& contenders) {
  std::vector<std::vector<double>> rates(contenders.size());
  for (const Contender& contender : contenders) contender.run();
  for (int round = 0; round < rounds_; ++round) {
    for (std::size_t i = 0; i < contenders.size(); ++i) {
      rates[i].push_back(static_cast<double>(comparison.bytes) / 1e9 /
                         seconds_of(contenders[i].run));
    }
  }
  std::printf("%s\n", comparison.name.c_str());
  for (std::size_t i = 0; i < contenders.size(); ++i) {
    std::vector<double> ratios;
    ratios.reserve(rates[i].size());
    for (std::size_t round = 0; round < rates[i].size(); ++round) {
      ratios.push_back(rates[i][round] / rates[0][round]);
    }
    const auto [least, most] = std::minmax_element(rates[i].begin(), rates[i].end());
    const double rate = median(rates[i]);
    const double ratio = median(ratios);
    std::printf("  %-34s %7.2f GB/s (%.2f..%.2f)  %5.2f of %s\n", contenders[i].name.c_str(), rate,
                *least, *most, ratio, contenders[0].name.c_str());
    nlohmann::json result = {{"name", comparison.name + "/" + contenders[i].name},
                             {"unit", "GB/s"},
                             {"median", rate},
                             {"min", *least},
                             {"max", *most},
                             {"extra", comparison.extra}};
    if (i != 0) {
      result["peer"] = contenders[0].name;
      result["peer_median"] = median(rates[0]);
      result["ratio"] = ratio;
    }
    results_.push_back(std::move(result));
  }
  std::fflush(stdout);
}

int save_results(const std::string& path, const nlohmann::json& results) {
  if (path.empty()) return 0;
  std::ofstream file(path);
  file << nlohmann::json{{"results", results}}.dump(2) << '\n';
  if (file.good()) return 0;
  std::cerr << path << ": cannot be written\n";
  return 1;
}

void on_threads(unsigned threads, const std::function<void(unsigned)>& body) {
  if (threads == 1) {
    body(0);
    return;
  }
  std::latch ready(threads);
  std::vector<std::thread> team;
  team.reserve(threads);
  for (unsigned thread = 0; thread < threads; ++thread) {
    team.emplace_back([&, thread] {
      ready.arrive_and_wait();
      body(thread);
    });
  }
  for (std::thread& member : team) member.join();
}

}  // namespace nearkv::bench
