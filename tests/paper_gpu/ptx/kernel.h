// SPDX-License-Identifier: Apache-2.0
// A kernel ready to run: instructions with their handlers, and the locations of their operands.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "paper_gpu/ptx/units.h"

namespace gradmill::paper::ptx {

class Module;
struct Warp;
struct Instruction;

inline constexpr int kLanes = 32;
inline constexpr uint32_t kAllLanes = 0xffffffffu;

// Executes an instruction for the lanes in `mask`, which has at least one.
using Handler = void (*)(Warp& warp, const Instruction& instruction, uint32_t mask);

// How the scheduler treats an instruction.
enum class Flow : uint8_t {
  plain,
  branch,
  exit,
  collective,  // waits for the lanes of the warp that it names
  barrier,     // of the block or the cluster: the handler returns whether the warp continues
  poll,        // may find that what it waits for is not ready
};

enum class Space : uint8_t { generic, global, shared, cluster, local, param };

// The location of a register: byte offset into a warp's registers, or into the kernel's constants (lowest bit set).
// Predicates are numbered; each is a word with one bit per lane.
using Slot = uint32_t;
inline constexpr Slot kNoSlot = 0xfffffffeu;

struct Instruction {
  Handler run = nullptr;
  Flow flow = Flow::plain;
  Unit unit = Unit::integer;
  bool guard_negated = false;
  bool of_products = false;     // a warpgroup's product or a related instruction
  bool writes_operand = false;  // writes a register that products use
  bool inexact = false;         // hardware's bits may differ: see exactness.h
  uint8_t kind = 0, flags = 0;  // for the handler
  Slot guard = kNoSlot;         // a predicate
  Slot d = kNoSlot, a = kNoSlot, b = kNoSlot, c = kNoSlot, e = kNoSlot;
  uint32_t target = 0;                // of a branch
  int64_t offset = 0;                 // of an address, or another number
  std::vector<Slot> list;             // operands in braces
  std::vector<uint32_t> of_operands;  // numbers of this instruction's registers that products use as well
  uint32_t file = 0, line = 0;
};

// Bits of Instruction::flags that several families of instructions share.
inline constexpr uint8_t kWideValue = 1, kWideAddress = 2, kNegatedPredicate = 4;

struct Parameter {
  uint32_t offset, bytes;
};

// Values that hardware provides to threads.
enum class Special : uint8_t {
  tid_x,
  tid_y,
  tid_z,
  ntid_x,
  ntid_y,
  ntid_z,
  ctaid_x,
  ctaid_y,
  ctaid_z,
  nctaid_x,
  nctaid_y,
  nctaid_z,
  laneid,
  warpid,
  lanemask_eq,
  lanemask_lt,
  lanemask_le,
  lanemask_gt,
  lanemask_ge,
  cluster_rank,
  cluster_size,
  clusterid_x,
  nclusterid_x,
  clock,
  clock64,
  globaltimer,
  smid,
  nsmid,
  nwarpid,
  dynamic_smem_size,
  total_smem_size,
  zero,
  one,
};

struct Kernel {
  Module* module = nullptr;
  std::string name;
  std::vector<Instruction> code;
  std::vector<Parameter> parameters;
  uint32_t param_bytes = 0, static_shared = 0, dynamic_begin = 0, local_bytes = 0, max_threads = 0;
  uint32_t register_bytes = 0, num_predicates = 0;
  uint32_t shared_granule = 4;      // the smallest access to shared memory, in bytes
  Slot explicit_cluster = kNoSlot;  // the predicate %is_explicit_cluster
  bool uses_products = false;
  std::vector<std::pair<Special, Slot>> specials;
  std::vector<Slot> poisoned;                           // registers that may be read before they are written
  std::vector<std::array<uint64_t, kLanes>> constants;  // each takes 256 bytes for any width
};

// The location of an instruction in the source, as "file.cu:12".
std::string place_of(const Kernel& kernel, const Instruction& instruction);
// The name as in the source, without parameters.
std::string readable_name(const std::string& mangled);

}  // namespace gradmill::paper::ptx
