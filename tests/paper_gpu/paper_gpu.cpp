// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/paper_gpu.h"

#include <cstdio>
#include <cstdlib>
#include <mutex>
#include <utility>

namespace gradmill::paper {
namespace {

constexpr Kind kKinds[] = {
    {"t4", "Tesla T4", 75, 40, 15095, 64, 1590, 5001, 256},
    {"a100", "NVIDIA A100-SXM4-80GB", 80, 108, 81154, 163, 1410, 1593, 5120},
    {"rtx3090", "NVIDIA GeForce RTX 3090", 86, 82, 24251, 99, 1695, 9751, 384},
    {"rtx4080", "NVIDIA GeForce RTX 4080", 89, 76, 15936, 99, 2505, 11201, 256},
    {"h100", "NVIDIA H100 80GB HBM3", 90, 132, 81079, 227, 1980, 2619, 5120},
    {"h200", "NVIDIA H200", 90, 132, 143167, 227, 1980, 3201, 6144},
    {"b200", "NVIDIA B200", 100, 148, 183359, 227, 1965, 3996, 8192},
    {"rtx5090", "NVIDIA GeForce RTX 5090", 120, 170, 32103, 99, 2407, 14001, 512},
};

const Kind& find_kind() {
  const char* const wanted = std::getenv("PAPER_GPU");
  for (const Kind& kind : kKinds) {
    if (wanted != nullptr && kind.name == wanted) return kind;
  }
  std::fprintf(stderr, "PAPER_GPU must name a GPU:");
  for (const Kind& kind : kKinds) std::fprintf(stderr, " %.*s", int(kind.name.size()), kind.name.data());
  std::fprintf(stderr, "\n");
  std::_Exit(2);
}

std::vector<std::string>& all_faults() {
  static std::vector<std::string> list;
  return list;
}

std::string& first_inexact() {
  static std::string why;
  return why;
}

}  // namespace

const Kind& gpu() {
  static const Kind& kind = find_kind();
  return kind;
}

int gpu_index() {
  static const int index = [] {
    const char* const text = std::getenv("PAPER_GPU_AT");
    return text != nullptr ? std::atoi(text) : 0;
  }();
  return index;
}

bool computes() {
  static const bool answer = [] {
    const char* const text = std::getenv("PAPER_GPU_COMPUTES");
    return text == nullptr || std::string_view(text) != "off";
  }();
  return answer;
}

void fault(const std::string& what) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  all_faults().push_back(what);
  std::fprintf(stderr, "paper GPU (%.*s): %s\n", int(gpu().name.size()), gpu().name.data(), what.c_str());
}

const std::vector<std::string>& faults() { return all_faults(); }

std::vector<std::string> take_faults() { return std::exchange(all_faults(), {}); }

void note_inexact(const std::string& why) {
  if (first_inexact().empty()) first_inexact() = why;
}

std::string take_inexact() { return std::exchange(first_inexact(), {}); }

Counts& counts() {
  static Counts all;
  return all;
}

Refusals& refusals() {
  static Refusals all;
  return all;
}

}  // namespace gradmill::paper
