// Tests that bring harm to their process, in one of its own.
#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <functional>
#include <string>

namespace nearkv::test {

inline constexpr int kCannot = 77;  ///< A child's exit status: the machine does not allow this.

/// Runs `body` in a child, which returns 0 if all is well, and says on standard error what is not.
inline void in_child(const std::function<int()>& body) {
  const pid_t child = ::fork();
  ASSERT_GE(child, 0);
  if (child == 0) ::_exit(body());
  int status = 0;
  ASSERT_EQ(::waitpid(child, &status, 0), child);
  ASSERT_TRUE(WIFEXITED(status)) << "ended by signal " << WTERMSIG(status);
  if (WEXITSTATUS(status) == kCannot) GTEST_SKIP() << "this machine does not allow it";
  EXPECT_EQ(WEXITSTATUS(status), 0);
}

/// In a child: says what is wrong and exits.
inline void expect(bool right, const char* what, const std::string& said = {}) {
  if (right) return;
  std::fprintf(stderr, "not so: %s (%s)\n", what, said.c_str());
  ::_exit(1);
}

}  // namespace nearkv::test
