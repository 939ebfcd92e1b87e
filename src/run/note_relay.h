// SPDX-License-Identifier: Apache-2.0
// NoteRelay: lines for the user, kept until they can be shown.
#pragma once

#include <functional>
#include <string>
#include <vector>

namespace gradmill {

class NoteRelay {
 public:
  using Show = std::function<void(const std::string&)>;

  void add(const std::string& line) {
    if (show_) {
      show_(line);
    } else {
      early_.push_back(line);
    }
  }
  // Shows the lines so far, and all later ones at once.
  void attach(Show show) {
    show_ = std::move(show);
    for (const std::string& line : early_) show_(line);
    early_.clear();
  }

 private:
  Show show_;
  std::vector<std::string> early_;
};

}  // namespace gradmill
