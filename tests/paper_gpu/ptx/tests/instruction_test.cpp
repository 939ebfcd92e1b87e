// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/ptx/tests/instruction_test.h"

#include <algorithm>
#include <array>
#include <sstream>

namespace gradmill::paper::ptx::test {
namespace {

constexpr size_t kRows = 4096;

struct Register {
  const char *prefix, *load, *store;
  uint32_t bytes;
};
Register register_of(Kind kind) {
  switch (kind) {
    case Kind::pred:
      return {"%p", "u32", "u32", 4};
    case Kind::b16:
    case Kind::f16:
    case Kind::bf16:
      return {"%rs", "u16", "u16", 2};
    case Kind::b32:
    case Kind::f16x2:
    case Kind::bf16x2:
      return {"%r", "u32", "u32", 4};
    case Kind::b64:
      return {"%rd", "u64", "u64", 8};
    case Kind::f32:
      return {"%f", "f32", "f32", 4};
    case Kind::f64:
      return {"%fd", "f64", "f64", 8};
  }
  return {};
}
std::string name_of(Kind kind, size_t number) { return register_of(kind).prefix + std::to_string(number); }
std::string input_name(Kind kind, size_t i) { return name_of(kind, 21 + i); }
std::string output_name(Kind kind, size_t i) { return name_of(kind, 31 + i); }

// Edge values, with both signs, of the formats that values are converted to.
const std::vector<double>& edge_values() {
  static const std::vector<double> edges = [] {
    std::vector<double> values = {0, 1, 0.5, 1.5, 2.5, 3.5, 3, 1.0 / 3, 10, 0.75, 127.5, 128, 255, 255.5, 256, 32767.5};
    for (const int exponent :
         {-1074, -1022, -149, -150, -126, -24, -25, -14, -9, -10, -6, -16, -17, 24, 31, 53, 63, 64}) {
      for (const double factor : {1.0, 1 + 0x1p-52, 1 + 0x1p-23, 1 - 0x1p-24, 1 - 0x1p-53, 1.5}) {
        values.push_back(std::ldexp(factor, exponent));
      }
    }
    for (const int place : {-3, -4, -8, -11, -24, -53}) {  // ties just below a format's last bit, and their neighbours
      for (const int odd : {1, 3}) {
        values.push_back(1 + std::ldexp(odd, place));
        values.push_back(1 + std::ldexp(odd, place) + 0x1p-23);
      }
    }
    for (const Format& format : {kF64, kF32, kF16, kBf16, kE5m2, kE4m3}) {
      values.push_back(format.largest);
      const double half = std::ldexp(0.5, format.max_exponent - format.precision + 1);
      values.push_back(format.largest + half);
      values.push_back(std::nextafter(format.largest + half, 0));
      values.push_back(std::nextafterf(static_cast<float>(format.largest + half), 0));
    }
    for (const int place : {-10, -11, -23, -24, -52, -53}) {  // products close to the smallest normal values
      for (const int exponent : {0, -14, -126}) values.push_back(std::ldexp(1 - std::ldexp(1, place), exponent));
    }
    values.insert(values.end(),
                  {2147483520.0, 2147483647.0, 4294967040.0, 4294967295.0, 8388607.5, 8388609, kInfinity});
    const size_t positive = values.size();
    for (size_t i = 0; i < positive; ++i) values.push_back(-values[i]);
    return values;
  }();
  return edges;
}

template <class T, class Bits>
std::vector<uint64_t> float_edges(std::initializer_list<Bits> nans) {
  std::vector<uint64_t> edges;
  for (const double edge : edge_values()) edges.push_back(std::bit_cast<Bits>(round_as<T>(edge)));
  edges.insert(edges.end(), nans.begin(), nans.end());
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  return edges;
}

std::vector<uint64_t> integer_edges(int bits) {
  std::vector<uint64_t> edges = {0, 1, 2, 3, 5, 7, 8, 15, 16, 17, 31, 32, 33, 63, 64, 65, 100, 255, 256, 257};
  for (const int at : {7, 8, 15, 16, 31, 32, 47, 63}) {
    if (at >= bits) continue;
    const uint64_t power = uint64_t{1} << at;
    edges.insert(edges.end(), {power - 1, power, power + 1, ~power, ~power + 1, ~power + 2});
  }
  edges.insert(edges.end(), {~uint64_t{0}, ~uint64_t{1}, 0x5555555555555555, 0xaaaaaaaaaaaaaaaa, 0x0123456789abcdef});
  for (uint64_t& edge : edges) edge &= ~uint64_t{0} >> (64 - bits);
  std::sort(edges.begin(), edges.end());
  edges.erase(std::unique(edges.begin(), edges.end()), edges.end());
  return edges;
}

const std::vector<uint64_t>& edges_of(Kind kind) {
  using Edges = std::vector<uint64_t>;
  static const Edges pred = {0, 1}, b16 = integer_edges(16), b32 = integer_edges(32), b64 = integer_edges(64);
  static const Edges f16 = float_edges<F16, uint16_t>({0x7fff, 0xfe00, 0x7c01});
  static const Edges bf16 = float_edges<Bf16, uint16_t>({0x7fff, 0xffc0, 0x7f81});
  static const Edges f32 = float_edges<float, uint32_t>({0x7fffffff, 0xffc00000, 0x7f800001});
  static const Edges f64 = float_edges<double, uint64_t>({0x7ff8000000000000, 0xffffffffffffffff, 0x7ff0000000000001});
  switch (kind) {
    case Kind::pred:
      return pred;
    case Kind::b16:
      return b16;
    case Kind::b32:
      return b32;
    case Kind::b64:
      return b64;
    case Kind::f16:
    case Kind::f16x2:
      return f16;
    case Kind::bf16:
    case Kind::bf16x2:
      return bf16;
    case Kind::f32:
      return f32;
    case Kind::f64:
      return f64;
  }
  return b64;
}

uint64_t random_near_one(double magnitude, Kind kind) {
  const double a = (random_bits() & 1) != 0 ? -magnitude : magnitude;
  if (kind == Kind::f64) return std::bit_cast<uint64_t>(a);
  if (kind == Kind::f32) return std::bit_cast<uint32_t>(round_as<float>(a));
  return kind == Kind::f16 || kind == Kind::f16x2 ? round_as<F16>(a).bits : round_as<Bf16>(a).bits;
}

uint64_t random_operand(Kind kind) {
  const auto& edges = edges_of(kind);
  const uint64_t choice = random_bits() % 4, bits = random_bits();
  if (kind == Kind::pred) return bits & 1;
  if (kind == Kind::f16x2 || kind == Kind::bf16x2) {
    const Kind half = kind == Kind::f16x2 ? Kind::f16 : Kind::bf16;
    return random_operand(half) << 16 | random_operand(half);
  }
  if (choice == 0) return edges[bits % edges.size()];
  const bool is_float = kind != Kind::b16 && kind != Kind::b32 && kind != Kind::b64;
  const uint64_t mask = ~uint64_t{0} >> (64 - 8 * register_of(kind).bytes);
  if (choice == 1) return bits & mask;
  if (!is_float) return (bits >> random_bits() % 64) & mask;
  const auto exponent = static_cast<int>(random_bits() % 9) - 4;
  return random_near_one(std::ldexp(1 + static_cast<double>(bits >> 12) * 0x1p-52, exponent), kind);
}

// -a * b, rounded, so that a fused multiply-add leaves only the rounding error.
uint64_t opposite(Kind kind, uint64_t a, uint64_t b) {
  const auto of = [&]<class T>(T) {
    const double x = value(from_slot<T>(a)), y = value(from_slot<T>(b));
    return uint64_t{std::bit_cast<
        std::conditional_t<sizeof(T) == 8, uint64_t, std::conditional_t<sizeof(T) == 4, uint32_t, uint16_t>>>(
        as<T>(-multiply(x, y, kFormat<T>, Rounding::rn)))};
  };
  if (kind == Kind::f64) return of(double());
  if (kind == Kind::f32) return of(float());
  return kind == Kind::f16 ? of(F16()) : of(Bf16());
}

std::vector<uint64_t> operands(const std::vector<Kind>& inputs) {
  restart_random();
  std::vector<uint64_t> rows;
  const auto is_16 = [](Kind kind) { return kind == Kind::b16 || kind == Kind::f16 || kind == Kind::bf16; };
  if (inputs.size() == 1 && is_16(inputs[0])) {
    for (uint64_t bits = 0; bits < 65536; ++bits) rows.push_back(bits);
    return rows;
  }
  size_t all = 1;
  for (const Kind kind : inputs) all *= edges_of(kind).size();
  const size_t from_edges = std::min(all, kRows), num_rows = (from_edges + kRows) / 32 * 32;
  for (size_t row = 0; row < num_rows; ++row) {
    size_t number = all <= kRows ? row : random_bits() % all;
    const size_t begin = rows.size();
    for (const Kind kind : inputs) {
      const auto& edges = edges_of(kind);
      const bool is_pair = kind == Kind::f16x2 || kind == Kind::bf16x2;
      rows.push_back(row < from_edges ? edges[number % edges.size()] : random_operand(kind));
      if (is_pair && row < from_edges) rows.back() |= random_operand(kind) << 16 & 0xffff0000;
      number /= edges.size();
    }
    const bool is_fused = inputs.size() == 3 && inputs[0] == inputs[1] && inputs[1] == inputs[2] &&
                          (is_16(inputs[0]) || inputs[0] == Kind::f32 || inputs[0] == Kind::f64) &&
                          inputs[0] != Kind::b16;
    if (is_fused && row % 4 == 3) rows[begin + 2] = opposite(inputs[0], rows[begin], rows[begin + 1]);
  }
  return rows;
}

std::string with_operands(const Instruction& instruction) {
  std::string text = instruction.text;
  if (text.find('$') == std::string::npos) {
    text += " ";
    for (size_t i = 0; i < instruction.outputs.size(); ++i) text += std::string(i == 0 ? "$" : ", $") + char('d' + i);
    for (size_t i = 0; i < instruction.inputs.size(); ++i) text += ", $" + std::to_string(i + 1);
    text += ";";
  }
  for (size_t i = 0; i < instruction.outputs.size(); ++i) {
    text = with(text, {{std::string("$") + char('d' + i), output_name(instruction.outputs[i], i)}});
  }
  for (size_t i = 0; i < instruction.inputs.size(); ++i) {
    text = with(text, {{"$" + std::to_string(i + 1), input_name(instruction.inputs[i], i)}});
  }
  return text;
}

Source kernel_of(const Instruction& instruction) {
  std::ostringstream body;
  const size_t num_inputs = instruction.inputs.size(), num_outputs = instruction.outputs.size();
  body << "\tshl.b32 \t%r3, %r2, 5;\n\tadd.s32 \t%r4, %r3, %r1;\n";
  body << "\tmul.wide.u32 \t%rd10, %r4, " << 8 * num_inputs << ";\n\tadd.s64 \t%rd11, %rd1, %rd10;\n";
  body << "\tmul.wide.u32 \t%rd12, %r4, " << 8 * num_outputs << ";\n\tadd.s64 \t%rd13, %rd2, %rd12;\n";
  for (size_t i = 0; i < num_inputs; ++i) {
    const Kind kind = instruction.inputs[i];
    const std::string name = kind == Kind::pred ? "%r" + std::to_string(50 + i) : input_name(kind, i);
    body << "\tld.global." << register_of(kind).load << " \t" << name << ", [%rd11+" << 8 * i << "];\n";
    if (kind == Kind::pred) body << "\tsetp.ne.s32 \t" << input_name(kind, i) << ", " << name << ", 0;\n";
  }
  body << "\t" << with_operands(instruction) << "\n";
  for (size_t i = 0; i < num_outputs; ++i) {
    const Kind kind = instruction.outputs[i];
    const std::string name = kind == Kind::pred ? "%r" + std::to_string(60 + i) : output_name(kind, i);
    if (kind == Kind::pred) body << "\tselp.u32 \t" << name << ", 1, 0, " << output_name(kind, i) << ";\n";
    body << "\tst.global." << register_of(kind).store << " \t[%rd13+" << 8 * i << "], " << name << ";\n";
  }
  return {body.str(), 2};
}

std::string hex(const uint64_t* slots, size_t count) {
  std::ostringstream text;
  text << std::hex;
  for (size_t i = 0; i < count; ++i) text << (i == 0 ? "0x" : ", 0x") << slots[i];
  return text.str();
}

}  // namespace

void expect_instruction(const Instruction& instruction) {
  const std::vector<uint64_t> in = operands(instruction.inputs);
  const size_t num_inputs = instruction.inputs.size(), num_outputs = instruction.outputs.size();
  const size_t num_rows = in.size() / num_inputs;
  const Buffer<uint64_t> operands(in);
  Buffer<uint64_t> results(num_rows * num_outputs, false);
  const std::string wrong =
      run_source(kernel_of(instruction), blocks_of(32, static_cast<uint32_t>(num_rows / 32)), {operands, results});
  ASSERT_EQ(wrong, "") << instruction.text;
  size_t num_wrong = 0;
  for (size_t row = 0; row < num_rows; ++row) {
    const uint64_t *const from = &in[row * num_inputs], *const to = results.begin() + row * num_outputs;
    const std::string expected = instruction.wrong(from, to, static_cast<uint32_t>(row % 32));
    if (expected.empty() || ++num_wrong > 3) continue;
    ADD_FAILURE() << with_operands(instruction) << " of " << hex(from, num_inputs) << " gives " << hex(to, num_outputs)
                  << ", not " << expected;
  }
  if (num_wrong > 3) ADD_FAILURE() << instruction.text << ": " << num_wrong << " of " << num_rows << " are wrong";
}

}  // namespace gradmill::paper::ptx::test
