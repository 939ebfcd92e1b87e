// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/kernel_names.h"

#include <cxxabi.h>

#include <cstdlib>
#include <initializer_list>
#include <string_view>

namespace gradmill::paper {
namespace {

// Parameters begin at the first parenthesis outside of template arguments.
size_t begin_of_parameters(const std::string& name) {
  int depth = 0;
  for (size_t at = 0; at < name.size(); ++at) {
    if (name[at] == '<') ++depth;
    if (name[at] == '>') --depth;
    if (name[at] == '(' && depth == 0) return at;
  }
  return name.size();
}

}  // namespace

std::string instance_name(const std::string& mangled) {
  int status = 0;
  char* const text = abi::__cxa_demangle(mangled.c_str(), nullptr, nullptr, &status);
  std::string name = text != nullptr ? text : mangled;
  std::free(text);
  for (const std::string_view part : {"void ", "(anonymous namespace)::", "gradmill::"}) {
    for (size_t at; (at = name.find(part)) != std::string::npos;) name.erase(at, part.size());
  }
  return name.substr(0, begin_of_parameters(name));
}

}  // namespace gradmill::paper
