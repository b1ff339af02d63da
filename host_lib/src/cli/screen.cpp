#include "cli/screen.hpp"

#define NCURSES_NOMACROS
#include <ncurses.h>

#include <algorithm>

namespace nearkv::cli {

Screen::Screen() {
  ::initscr();
  ::cbreak();
  ::noecho();
  ::keypad(stdscr, true);
  ::curs_set(0);
}

Screen::~Screen() { ::endwin(); }

void Screen::show(const std::vector<std::string>& lines) {
  lines_ = lines;
  ::werase(stdscr);
  const int rows = ::getmaxy(stdscr);
  const int columns = ::getmaxx(stdscr);
  for (int row = 0; row < std::min(rows, static_cast<int>(lines.size())); ++row) {
    if (row == 0) ::wattr_on(stdscr, WA_BOLD, nullptr);
    ::mvwaddnstr(stdscr, row, 0, lines[static_cast<std::size_t>(row)].c_str(), columns);
    if (row == 0) ::wattr_off(stdscr, WA_BOLD, nullptr);
  }
  ::wrefresh(stdscr);
}

bool Screen::pause(std::chrono::duration<double> time) {
  const auto end = std::chrono::steady_clock::now() + time;
  while (true) {
    const auto left =
        std::chrono::ceil<std::chrono::milliseconds>(end - std::chrono::steady_clock::now());
    if (left.count() <= 0) return true;
    ::wtimeout(stdscr, static_cast<int>(std::min<std::int64_t>(left.count(), 1000)));
    const int key = ::wgetch(stdscr);
    if (key == 'q' || key == 'Q') return false;
    if (key == KEY_RESIZE) show(std::vector<std::string>(lines_));
  }
}

}  // namespace nearkv::cli
