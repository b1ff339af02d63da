#include "options.hpp"

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <limits>
#include <numeric>
#include <string_view>
#include <vector>

namespace nearkv::nixl {
namespace {

constexpr unsigned kMostWorkers = 64;

/// How many letters have to be inserted, removed or changed to make one word of the other.
std::size_t distance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::size_t changed = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({changed, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

std::string nearest(std::string_view name, const nixl_b_params_t& known) {
  return std::ranges::min_element(known, {},
                                  [&](const auto& parameter) {
                                    return std::pair(distance(name, parameter.first),
                                                     parameter.first);
                                  })
      ->first;
}

/// A whole number up to `most`, and nothing else.
bool read_number(const std::string& text, unsigned most, unsigned* number) {
  const char* const end = text.data() + text.size();
  const auto [stop, error] = std::from_chars(text.data(), end, *number);
  return error == std::errc() && stop == end && *number <= most;
}

}  // namespace

nixl_b_params_t default_parameters() {
  return {{"uri", ""},   {"socket", ""}, {"tenant", "0"},  {"salt", ""},         {"model", ""},
          {"dtype", ""}, {"layout", ""}, {"workers", "2"}, {"overwrite", "true"}};
}

Status read_options(const nixl_b_params_t& parameters, Options* options, std::string* reason) {
  nixl_b_params_t all = default_parameters();
  for (const auto& [name, value] : parameters) {
    const auto known = all.find(name);
    if (known == all.end()) {
      *reason = "there is no parameter '" + name + "'; is " + nearest(name, all) + " meant?";
      return Status::kBadArgument;
    }
    if (!value.empty()) known->second = value;
  }
  if (all["uri"].empty() == all["socket"].empty()) {
    *reason = "needs a uri, or the socket of a daemon, and not both";
    return Status::kBadArgument;
  }
  unsigned tenant = 0;
  if (!read_number(all["tenant"], std::numeric_limits<std::uint16_t>::max(), &tenant)) {
    *reason = "tenant is a number up to 65535, not '" + all["tenant"] + "'";
    return Status::kBadArgument;
  }
  if (!read_number(all["workers"], kMostWorkers, &options->workers) || options->workers == 0) {
    *reason = "workers is a number from 1 to 64, not '" + all["workers"] + "'";
    return Status::kBadArgument;
  }
  if (all["overwrite"] != "true" && all["overwrite"] != "false") {
    *reason = "overwrite is true or false, not '" + all["overwrite"] + "'";
    return Status::kBadArgument;
  }
  options->uri = all["uri"];
  options->socket = all["socket"];
  options->overwrite = all["overwrite"] == "true";
  options->space.tenant = static_cast<std::uint16_t>(tenant);
  options->space.model = all["model"];
  options->space.dtype = all["dtype"];
  options->space.layout = all["layout"];
  options->space.salt = all["salt"];
  return Status::kOk;
}

Status open_store(const Options& options, std::unique_ptr<ObjectStore>* store,
                  std::string* reason) {
  if (!options.socket.empty()) {
    // A post must not wait: while a daemon restarts, transfers fail, and the next ones do not.
    ObjectStore::ClientOptions client;
    client.patience = std::chrono::milliseconds(0);
    return ObjectStore::connect(options.socket, client, store, reason);
  }
  const std::size_t begin = options.uri.find(':') + 1;
  const std::string path = options.uri.substr(begin, options.uri.find('?', begin) - begin);
  std::error_code ignored;
  const bool is_there = !path.empty() && std::filesystem::exists(path, ignored);
  ObjectStore::Options store_options;
  store_options.workers = options.workers;
  const auto opens = is_there ? &ObjectStore::open : &ObjectStore::create;
  return opens(options.uri, store_options, store, reason);
}

}  // namespace nearkv::nixl
