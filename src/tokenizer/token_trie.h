// SPDX-License-Identifier: Apache-2.0
// Finds the tokens at the start of a text.
#pragma once

#include <cstdint>
#include <string_view>
#include <vector>

#include "tokenizer/token_id.h"

namespace gradmill {

// A tree of bytes whose edges are in one hash table, so that each byte of a walk takes one probe.
class TokenTrie {
 public:
  using Node = uint32_t;
  static constexpr Node kRoot = 0;
  static constexpr Node kNone = 0xFFFFFFFF;

  TokenTrie();
  // The later of two equal tokens counts.
  void insert(std::string_view token, TokenId id);

  Node next(Node node, char letter) const {
    const uint64_t wanted = key(node, letter);
    size_t i = slot(wanted);
    while (edges_[i].key != wanted && edges_[i].key != kFree) i = (i + 1) & (edges_.size() - 1);
    return edges_[i].key == wanted ? edges_[i].node : kNone;
  }
  // The token that ends at a node, or -1.
  TokenId token(Node node) const { return tokens_[node]; }

 private:
  static constexpr uint64_t kFree = ~uint64_t{0};
  struct Edge {
    uint64_t key = kFree;
    Node node = kNone;
  };

  static uint64_t key(Node node, char letter) { return uint64_t{node} << 8 | static_cast<unsigned char>(letter); }
  size_t slot(uint64_t wanted) const { return (wanted * 0x9E3779B97F4A7C15) >> shift_; }
  void add_edge(Edge edge);
  void grow();

  std::vector<TokenId> tokens_;  // by node
  std::vector<Edge> edges_;      // the size is a power of two, at most half full
  int shift_;
};

}  // namespace gradmill
