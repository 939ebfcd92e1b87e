// SPDX-License-Identifier: Apache-2.0
// Shared libraries opened at run time, so that one binary starts on machines with and without them.
#pragma once

#include <initializer_list>
#include <string>

namespace gradmill::cuda {

// Stays open until the process ends: plans and handles of such a library may outlive anything of ours.
class Library {
 public:
  // Opens the first that is found, in the order given: each next to the executable, in lib/ beside it, then where the
  // system looks (LD_LIBRARY_PATH, the linker's cache). Not finding any is an answer, not an error.
  static Library open(std::initializer_list<const char*> names);

  bool is_open() const { return handle_ != nullptr; }
  // Why it is not open, for people; empty when it is.
  const std::string& error() const { return error_; }
  void* handle() const { return handle_; }  // as dlopen gave it
  // Null if the library has no such symbol or is not open.
  void* symbol(const char* name) const;
  template <class Function>
  Function* function(const char* name) const {
    return reinterpret_cast<Function*>(symbol(name));
  }

 private:
  void* handle_ = nullptr;
  std::string error_;
};

}  // namespace gradmill::cuda
