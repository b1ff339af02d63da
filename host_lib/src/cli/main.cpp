// The product executable: a daemon, and tools for it and for pools.
#include <clocale>
#include <iostream>

#include "cli/command.hpp"

namespace {

constexpr const char* kMainFooter =
    "EXIT STATUS\n"
    "  0  done\n"
    "  1  failed; standard error says why and what to do\n"
    "  2  wrong usage or configuration\n"
    "  3  done, and damage was found\n\n"
    "nearkv COMMAND --help explains a command.";

int run(int count, char** words) {
  CLI::App app("NearKV: KV blocks kept near the memory that holds them.", "nearkv");
  app.require_subcommand(1);
  app.footer(kMainFooter);
  int exit = nearkv::cli::kDone;
  nearkv::cli::add_serve(&app, &exit);
  nearkv::cli::add_stat(&app, &exit);
  nearkv::cli::add_ls(&app, &exit);
  nearkv::cli::add_top(&app, &exit);
  nearkv::cli::add_inspect(&app, &exit);
  nearkv::cli::add_verify(&app, &exit);
  nearkv::cli::add_defrag(&app, &exit);
  nearkv::cli::add_card(&app, &exit);
  try {
    app.parse(count, words);
  } catch (const CLI::ParseError& error) {
    return app.exit(error) == 0 ? nearkv::cli::kDone : nearkv::cli::kUsage;
  }
  return exit;
}

}  // namespace

int main(int count, char** words) {
  // So that printable_text() knows the letters of all languages.
  std::setlocale(LC_CTYPE, "C.UTF-8");
  try {
    return run(count, words);
  } catch (const nearkv::cli::Failure& failure) {
    std::cerr << "nearkv: " << nearkv::cli::printable_text(failure.text) << '\n';
    return failure.exit;
  } catch (const std::exception& error) {
    std::cerr << "nearkv: " << nearkv::cli::printable_text(error.what()) << '\n';
    return nearkv::cli::kFailed;
  }
}
