// SPDX-License-Identifier: Apache-2.0
#include "config/text_file.h"

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <memory>

namespace gradmill {
namespace {

constexpr size_t kMaxBytes =
    1 << 20;  // no configuration is this long, but a device or data file given by mistake may be

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};

}  // namespace

std::string read_text_file(const std::filesystem::path& path, std::string& text) {
  const std::unique_ptr<std::FILE, CloseFile> file(std::fopen(path.c_str(), "rb"));
  if (!file) return std::strerror(errno);
  text.resize(kMaxBytes + 1);
  text.resize(std::fread(text.data(), 1, text.size(), file.get()));
  if (std::ferror(file.get()) != 0) return std::strerror(errno);
  if (text.size() > kMaxBytes) return "longer than a megabyte";
  return "";
}

}  // namespace gradmill
