// SPDX-License-Identifier: Apache-2.0
// Shared libraries opened at run time, so that one binary starts on machines with and without them.
#pragma once

#include <initializer_list>
#include <string>

namespace gradmill::cuda {

// The library stays open until the process ends, because its plans and handles may outlive our objects.
class Library {
 public:
  // Opens the first of `names` that is found. Searches the folder of the executable, its subfolder lib/, then the
  // system's paths (LD_LIBRARY_PATH, the linker's cache). Finding none is not an error.
  static Library open(std::initializer_list<const char*> names);

  bool is_open() const { return handle_ != nullptr; }
  // Why the library is not open, for messages; empty if it is open.
  const std::string& error() const { return error_; }
  void* handle() const { return handle_; }  // from dlopen
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
