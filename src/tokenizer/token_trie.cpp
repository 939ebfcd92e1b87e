// SPDX-License-Identifier: Apache-2.0
#include "tokenizer/token_trie.h"

#include <utility>

namespace gradmill {

TokenTrie::TokenTrie() : tokens_(1, -1), edges_(1 << 8), shift_(64 - 8) {}

void TokenTrie::insert(std::string_view token, TokenId id) {
  Node node = kRoot;
  for (const char letter : token) {
    Node child = next(node, letter);
    if (child == kNone) {
      if ((tokens_.size() + 1) * 2 > edges_.size()) grow();
      child = static_cast<Node>(tokens_.size());
      tokens_.push_back(-1);
      add_edge({key(node, letter), child});
    }
    node = child;
  }
  tokens_[node] = id;
}

void TokenTrie::add_edge(Edge edge) {
  size_t i = slot(edge.key);
  while (edges_[i].key != kFree) i = (i + 1) & (edges_.size() - 1);
  edges_[i] = edge;
}

void TokenTrie::grow() {
  const std::vector<Edge> old = std::exchange(edges_, std::vector<Edge>(edges_.size() * 2));
  --shift_;
  for (const Edge& edge : old) {
    if (edge.key != kFree) add_edge(edge);
  }
}

}  // namespace gradmill
