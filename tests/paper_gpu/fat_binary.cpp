// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/fat_binary.h"

#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <fstream>
#include <map>
#include <memory>
#include <regex>
#include <sstream>
#include <stdexcept>

namespace gradmill::paper {
namespace {

// The argument of nvcc's registration code.
struct Wrapper {
  int magic, version;
  const std::byte* data;
};

struct Header {
  uint32_t magic;
  uint16_t version, header_bytes;
  uint64_t bytes;  // of all entries
};

// One kind of code for one GPU.
struct Entry {
  static constexpr uint16_t kPtx = 1;
  uint16_t kind, version;
  uint32_t header_bytes;
  uint64_t bytes;
  uint32_t unknown[3];
  uint32_t architecture;  // 90 for 9.0 and 9.0a
};

template <class T>
T read(const std::byte* from) {
  T value;
  std::memcpy(&value, from, sizeof(value));
  return value;
}

// Code for sm_90a runs on 9.0 only; other code also runs on all newer GPUs.
bool runs_on(const std::string& text, uint32_t architecture, int compute_capability) {
  const size_t target = text.find(".target sm_");
  if (target == std::string::npos) {
    throw std::runtime_error("the PTX in this binary is compressed: build it with --no-compress");
  }
  const size_t end = text.find_first_not_of("0123456789", target + std::strlen(".target sm_"));
  const bool exact = end != std::string::npos && (text[end] == 'a' || text[end] == 'f');
  const auto of_gpu = static_cast<uint32_t>(compute_capability);
  return exact ? architecture == of_gpu : architecture <= of_gpu;
}

// "gradmill::(anonymous)": without the hash of the file.
std::string without_file(const std::string& name) {
  static const std::regex kFile("_GLOBAL__N__[0-9a-f]{8}_[0-9]+_[A-Za-z0-9_]+?_cu_[0-9a-f]{8}(_[0-9]+)?");
  static const std::regex kLength("[0-9]+(?=_GLOBAL__N_)");
  return std::regex_replace(std::regex_replace(name, kLength, ""), kFile, "_GLOBAL__N_");
}

struct Replacements {
  std::vector<std::unique_ptr<ptx::Module>> modules;
  std::map<std::string, std::pair<ptx::Module*, std::string>> by_name;
};

Replacements load_replacements() {
  Replacements all;
  const char* const paths = std::getenv("PAPER_PTX");
  std::istringstream list(paths != nullptr ? paths : "");
  for (std::string path; std::getline(list, path, ':');) {
    std::ifstream file(path);
    std::ostringstream text;
    text << file.rdbuf();
    if (!file) throw std::runtime_error("PAPER_PTX: cannot read " + path);
    auto& module = *all.modules.emplace_back(std::make_unique<ptx::Module>(text.str()));
    for (const std::string& name : module.kernels()) all.by_name[without_file(name)] = {&module, name};
  }
  return all;
}

}  // namespace

ptx::Module* load_ptx(const void* wrapper, int compute_capability) {
  constexpr uint32_t kMagic = 0xba55ed50;
  const std::byte* at = read<Wrapper>(static_cast<const std::byte*>(wrapper)).data;
  const auto header = read<Header>(at);
  if (header.magic != kMagic) return nullptr;
  at += header.header_bytes;
  const std::byte* const end = at + header.bytes;
  std::string best;
  uint32_t best_architecture = 0;
  while (at < end) {
    const auto entry = read<Entry>(at);
    std::string text(reinterpret_cast<const char*>(at + entry.header_bytes), entry.bytes);
    if (entry.kind == Entry::kPtx && entry.architecture >= best_architecture &&
        runs_on(text, entry.architecture, compute_capability)) {
      text.resize(std::strlen(text.c_str()));  // padded with zeros
      best = std::move(text);
      best_architecture = entry.architecture;
    }
    at += entry.header_bytes + entry.bytes;
  }
  return best.empty() ? nullptr : new ptx::Module(std::move(best));  // never freed
}

const ptx::Kernel* replaced_kernel(const std::string& name) {
  static Replacements all = load_replacements();
  if (all.by_name.empty()) return nullptr;
  const auto found = all.by_name.find(without_file(name));
  return found == all.by_name.end() ? nullptr : &found->second.first->kernel(found->second.second);
}

}  // namespace gradmill::paper
