// Where make_policy finds them; each is in a file of its own.
#pragma once

#include <memory>

#include "policy.hpp"

namespace nearkv::router {

std::unique_ptr<Policy> make_round_robin();
std::unique_ptr<Policy> make_least_load();
std::unique_ptr<Policy> make_longest_prefix(const CostModel& cost);
std::unique_ptr<Policy> make_dynamo(const PolicyOptions& options);
std::unique_ptr<Policy> make_mooncake(const PolicyOptions& options);
std::unique_ptr<Policy> make_least_ttft(const CostModel& cost);

}  // namespace nearkv::router
