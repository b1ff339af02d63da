#include "cli/card_watch.hpp"

#include <csignal>
#include <ctime>

namespace nearkv::cli {
namespace {

volatile std::sig_atomic_t is_interrupted = 0;

void handle(void (*handler)(int)) {
  struct sigaction action{};
  action.sa_handler = handler;
  for (const int signal : {SIGINT, SIGTERM}) ::sigaction(signal, &action, nullptr);
}

}  // namespace

void add_seconds_option(CLI::App* command, double* seconds) {
  command->add_option("--seconds", *seconds, "How long to look; Ctrl-C ends it earlier")
      ->check(CLI::Range(0.01, 86400.0))
      ->capture_default_str();
}

Look::Look(double seconds)
    : end_(begin_ +
           std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(seconds))) {
  is_interrupted = 0;
  handle([](int) { is_interrupted = 1; });
}

Look::~Look() { handle(SIG_DFL); }

bool Look::pause(std::chrono::milliseconds time) const {
  const auto until = std::min(Clock::now() + time, end_);
  while (is_interrupted == 0 && Clock::now() < until) {
    const auto left = std::chrono::ceil<std::chrono::nanoseconds>(until - Clock::now());
    // Short, for a signal may come just before it.
    const timespec nap{0, std::min<long>(left.count(), 50'000'000)};
    if (nap.tv_nsec > 0) ::nanosleep(&nap, nullptr);
  }
  return is_interrupted == 0 && Clock::now() < end_;
}

double Look::seconds() const {
  return std::chrono::duration<double>(Clock::now() - begin_).count();
}

}  // namespace nearkv::cli
