// SPDX-License-Identifier: Apache-2.0
#include "paper_gpu/ptx/tests/fault.h"

namespace gradmill::paper::ptx::test {
namespace {

const std::string kThread = R"(
	mov.u32 %r8, %ntid.x;
	mad.lo.s32 %r9, %r2, %r8, %r1;
	mul.wide.u32 %rd9, %r9, 4;
	add.s64 %rd10, %rd1, %rd9;
	add.s64 %rd11, %rd2, %rd9;
	add.s64 %rd12, %rd3, %rd9;
)";

void run_one(const Fault& fault, bool is_bad) {
  const Source source{kThread + with(fault.body, {{"$fault", is_bad ? fault.bad : fault.good}}), 3, fault.globals};
  const Buffer<uint32_t> in(256);
  Buffer<uint32_t> zeros(16);
  Buffer<uint32_t> out(256, false);
  if (is_bad) return expect_finding(source, fault.launch, {in, out, zeros}, fault.words);
  expect_in_every_order(
      source, fault.launch, {in, out, zeros},
      [&] {
        for (uint32_t& each : zeros) each = 0;
      },
      [] {});
}

}  // namespace

void expect_fault(const Fault& fault) {
  SCOPED_TRACE(fault.what);
  run_one(fault, true);
  SCOPED_TRACE("without the fault");
  run_one(fault, false);
}

}  // namespace gradmill::paper::ptx::test
