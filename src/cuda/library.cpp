// SPDX-License-Identifier: Apache-2.0
#include "cuda/library.h"

#include <dlfcn.h>

namespace gradmill::cuda {
namespace {

// If a file exists but cannot be loaded (a missing dependency, the wrong architecture), its error says more than "no
// such file".
bool is_absent(const std::string& reason) { return reason.find("No such file") != std::string::npos; }

}  // namespace

Library Library::open(std::initializer_list<const char*> names) {
  Library library;
  std::string wanted, broken;
  for (const char* name : names) {
    wanted += (wanted.empty() ? "" : ", ") + std::string(name);
    // The loader replaces $ORIGIN with the folder of the executable.
    for (const char* folder : {"$ORIGIN/", "$ORIGIN/lib/", ""}) {
      library.handle_ = dlopen((folder + std::string(name)).c_str(), RTLD_NOW | RTLD_LOCAL);
      if (library.handle_) return library;
      const char* reason = dlerror();
      if (broken.empty() && reason && !is_absent(reason)) broken = reason;
    }
  }
  library.error_ = broken.empty() ? "no " + wanted + " on this machine (LD_LIBRARY_PATH may name its folder)" : broken;
  return library;
}

void* Library::symbol(const char* name) const { return handle_ ? dlsym(handle_, name) : nullptr; }

}  // namespace gradmill::cuda
