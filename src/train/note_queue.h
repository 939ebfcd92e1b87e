// SPDX-License-Identifier: Apache-2.0
// NoteQueue: any thread adds lines, and the thread that may print them takes them.
#pragma once

#include <mutex>
#include <string>
#include <utility>
#include <vector>

namespace gradmill {

class NoteQueue {
 public:
  void add(const std::string& line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(line);
  }
  // The lines since the last call, in order.
  std::vector<std::string> take() {
    const std::lock_guard lock(mutex_);
    return std::exchange(lines_, {});
  }

 private:
  std::mutex mutex_;
  std::vector<std::string> lines_;
};

}  // namespace gradmill
