// nkv_append over a memory of its own.
#pragma once

#include "Vnkv_append_bench.h"
#include "append_commands.hpp"

namespace nearkv::rtl_test {

class AppendUnit : public CommandUnit<Vnkv_append_bench> {
 public:
  using CommandUnit::CommandUnit;

  /// Both memories: garbage, with random rows and a list of places for the command that is
  /// returned.
  nkv_append_command prepare(const AppendShape& shape, std::uint32_t pages, test::Random& random) {
    fill_with_garbage(random);
    return prepare_append(*this, shape, pages, random);
  }

  model::Outcome run(const nkv_append_command& command) {
    return CommandUnit::run(command, &model::append);
  }
};

}  // namespace nearkv::rtl_test
