// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/ptx/registers.h"

#include <algorithm>
#include <queue>

namespace gradmill::paper::ptx {
namespace {

constexpr uint32_t kNarrowBytes = kLanes * 4, kWideBytes = kLanes * 8;

// Instructions from one leader to the next: a branch target begins a block, and a branch ends one.
struct BasicBlock {
  uint32_t begin, end;
  std::vector<uint32_t> next;
};

std::vector<BasicBlock> basic_blocks(const std::vector<Instruction>& code) {
  const auto size = static_cast<uint32_t>(code.size());
  std::vector<bool> leads(size + 1, false);
  leads[0] = leads[size] = true;
  for (uint32_t at = 0; at < size; ++at) {
    if (code[at].flow == Flow::branch) leads[code[at].target] = leads[at + 1] = true;
    if (code[at].flow == Flow::exit) leads[at + 1] = true;
  }
  std::vector<BasicBlock> blocks;
  std::vector<uint32_t> block_of(size + 1, 0);
  for (uint32_t at = 0; at < size; ++at) {
    if (leads[at]) blocks.push_back({at, at + 1, {}});
    blocks.back().end = at + 1;
    block_of[at] = static_cast<uint32_t>(blocks.size() - 1);
  }
  for (BasicBlock& block : blocks) {
    const Instruction& last = code[block.end - 1];
    const bool always = last.guard == kNoSlot;
    if (last.flow == Flow::branch) block.next.push_back(block_of[last.target]);
    const bool falls = (last.flow != Flow::branch && last.flow != Flow::exit) || !always;
    if (falls && block.end < size) block.next.push_back(block_of[block.end]);
  }
  return blocks;
}

using Bits = std::vector<uint64_t>;
bool test(const Bits& bits, uint32_t n) { return bits[n / 64] >> (n % 64) & 1; }
void set(Bits& bits, uint32_t n) { bits[n / 64] |= uint64_t{1} << (n % 64); }

}  // namespace

uint32_t Registers::add(bool wide) {
  wide_.push_back(wide);
  return static_cast<uint32_t>(wide_.size() - 1);
}

void Registers::note_guard(uint32_t instruction, bool guarded) {
  guarded_.resize(instruction + 1, false);
  guarded_[instruction] = guarded;
}

// The range from the first to the last instruction where a register is live, including loops: a data-flow analysis of
// the values that are still read.
std::vector<Registers::Interval> Registers::intervals(const Kernel& kernel) {
  const auto num_registers = static_cast<uint32_t>(wide_.size());
  const std::vector<BasicBlock> blocks = basic_blocks(kernel.code);
  guarded_.resize(kernel.code.size(), false);
  std::stable_sort(accesses_.begin(), accesses_.end(),
                   [](const Access& x, const Access& y) { return x.instruction < y.instruction; });
  const size_t words = num_registers / 64 + 1;
  std::vector<Bits> reads(blocks.size(), Bits(words)), writes = reads, alive_in = reads, alive_out = reads;
  std::vector<uint32_t> block_of(kernel.code.size());
  for (uint32_t b = 0; b < blocks.size(); ++b) {
    std::fill(block_of.begin() + blocks[b].begin, block_of.begin() + blocks[b].end, b);
  }
  // The reads of an instruction come before its writes.
  for (size_t from = 0, to = 0; from < accesses_.size(); from = to) {
    const uint32_t at = accesses_[from].instruction, b = block_of[at];
    while (to < accesses_.size() && accesses_[to].instruction == at) ++to;
    for (size_t n = from; n < to; ++n) {
      const Access& access = accesses_[n];
      if (!access.write && !test(writes[b], access.reg)) set(reads[b], access.reg);
    }
    for (size_t n = from; n < to; ++n) {
      if (accesses_[n].write && !guarded_[at]) set(writes[b], accesses_[n].reg);
    }
  }
  std::vector<std::vector<uint32_t>> before(blocks.size());
  for (uint32_t b = 0; b < blocks.size(); ++b) {
    for (const uint32_t next : blocks[b].next) before[next].push_back(b);
  }
  std::queue<uint32_t> work;
  std::vector<bool> queued(blocks.size(), true);
  for (size_t b = blocks.size(); b-- > 0;) work.push(static_cast<uint32_t>(b));
  while (!work.empty()) {
    const uint32_t b = work.front();
    work.pop();
    queued[b] = false;
    for (const uint32_t next : blocks[b].next) {
      for (size_t w = 0; w < words; ++w) alive_out[b][w] |= alive_in[next][w];
    }
    bool changed = false;
    for (size_t w = 0; w < words; ++w) {
      const uint64_t in = reads[b][w] | (alive_out[b][w] & ~writes[b][w]);
      changed |= in != alive_in[b][w];
      alive_in[b][w] = in;
    }
    if (!changed) continue;
    for (const uint32_t previous : before[b]) {
      if (!queued[previous]) work.push(previous);
      queued[previous] = true;
    }
  }
  std::vector<Interval> live(num_registers);
  for (const Access& access : accesses_) live[access.reg].extend(access.instruction);
  for (uint32_t b = 0; b < blocks.size(); ++b) {
    for (uint32_t reg = 0; reg < num_registers; ++reg) {
      if (test(alive_in[b], reg)) live[reg].extend(blocks[b].begin);
      if (test(alive_out[b], reg)) live[reg].extend(blocks[b].end - 1);
    }
  }
  alive_at_start_.assign(num_registers, false);
  for (uint32_t reg = 0; reg < num_registers; ++reg) alive_at_start_[reg] = !blocks.empty() && test(alive_in[0], reg);
  return live;
}

// Registers that start later reuse the locations of those that have ended.
void Registers::place(Kernel& kernel, std::vector<Interval>& live) {
  std::vector<uint32_t> order;
  for (uint32_t reg = 0; reg < live.size(); ++reg) {
    if (live[reg].seen()) order.push_back(reg);
  }
  std::stable_sort(order.begin(), order.end(), [&](uint32_t x, uint32_t y) { return live[x].begin < live[y].begin; });
  using Ending = std::pair<uint32_t, uint32_t>;  // last instruction, location
  std::priority_queue<Ending, std::vector<Ending>, std::greater<>> ending[2];
  std::vector<uint32_t> free[2];
  places_.assign(live.size(), kNoSlot);
  for (const uint32_t reg : order) {
    const bool wide = wide_[reg];
    auto& queue = ending[wide];
    while (!queue.empty() && queue.top().first < live[reg].begin) {
      free[wide].push_back(queue.top().second);
      queue.pop();
    }
    if (!free[wide].empty()) {
      places_[reg] = free[wide].back();
      free[wide].pop_back();
    } else {
      places_[reg] = kernel.register_bytes;
      kernel.register_bytes += wide ? kWideBytes : kNarrowBytes;
    }
    queue.push({live[reg].end, places_[reg]});
  }
}

void Registers::assign(Kernel& kernel) {
  std::vector<Interval> live = intervals(kernel);
  const uint32_t end = static_cast<uint32_t>(kernel.code.size()) - 1;
  std::vector<bool> is_special(wide_.size(), false);
  for (const auto& [special, reg] : specials_) {
    is_special[reg] = true;
    live[reg] = {0, end};
  }
  // Registers that a warpgroup's product reads or changes keep their location until it has been waited for.
  std::vector<bool> of_products(wide_.size(), false);
  for (const Access& access : accesses_) {
    if (!kernel.code[access.instruction].of_products || access.place < 0) continue;  // descriptors are read immediately
    of_products[access.reg] = true;
    live[access.reg] = {0, end};
  }
  for (const Access& access : accesses_) {
    Instruction& i = kernel.code[access.instruction];
    if (!of_products[access.reg] || i.of_products) continue;
    i.of_operands.push_back(access.reg);
    i.writes_operand |= access.write;
  }
  for (uint32_t reg = 0; reg < live.size(); ++reg) {
    if (alive_at_start_[reg] && !is_special[reg]) live[reg] = {0, end};
  }
  place(kernel, live);
  for (const Access& access : accesses_) {
    slot_at(kernel.code[access.instruction], access.place) = places_[access.reg];
  }
  for (Instruction& i : kernel.code) {
    for (uint32_t& reg : i.of_operands) reg = places_[reg] / kNarrowBytes;
  }
  for (const auto& [special, reg] : specials_) kernel.specials.push_back({special, places_[reg]});
  for (uint32_t reg = 0; reg < live.size(); ++reg) {
    if (alive_at_start_[reg] && !is_special[reg]) kernel.poisoned.push_back(places_[reg] | (wide_[reg] ? 1u : 0u));
  }
}

}  // namespace gradmill::paper::ptx
