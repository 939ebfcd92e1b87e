#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make_dist.sh BUILD OUTPUT: the binary of a build folder, and the shared libraries it needs beyond the C library, in one
# folder that runs where it is put. TESTS=on also takes the test binaries, or TESTS="name name" those; DIST_CUDA=on
# cuBLASLt and cuDNN (gigabytes), which a machine with CUDA has itself. PAPER=FOLDER takes the op tests on the paper GPU
# from that build folder, for tools/gpu_check.sh alone; CLI=off leaves gradmill itself out. CAPABILITY=90 blanks all code
# but that for compute capability 9.0, so that an archive of the folder is small.
set -euo pipefail
build=$1
output=$2

rm -rf "$output"
mkdir -p "$output/lib"
binaries=()
if [ "${CLI:-on}" = on ]; then
  install -s "$build/gradmill" "$output/gradmill"
  binaries+=("$output/gradmill")
fi

case ${TESTS:-off} in
  off) tests=() ;;
  on) mapfile -t tests < <(find "$build/tests" -maxdepth 1 -type f -executable -name '*_test' -printf '%f\n' | sort) ;;
  *) read -ra tests <<<"$TESTS" ;;
esac
for name in "${tests[@]}"; do
  install -D -s "$build/tests/$name" "$output/tests/$name"
  binaries+=("$output/tests/$name")
done

# Beside each other, where gpu_check.sh tells the loader to look. Their PTX is in sections that are kept.
if [ -n "${PAPER:-}" ]; then
  for name in ops_test_on_paper libpaper_cudart.so libcublasLt.so.13 libcudnn.so.9; do
    install -D -s "$PAPER/tests/paper_gpu/$name" "$output/paper/$name"
    binaries+=("$output/paper/$name")
  done
fi

if [ -n "${CAPABILITY:-}" ]; then
  for binary in "${binaries[@]}"; do
    case $binary in
      *.so*) ;;
      "$output"/paper/*) python3 "$(dirname "$0")/thin_program.py" "$binary" ptx "$CAPABILITY" ;;
      # A build that has PTX alone is compiled by the driver where it runs.
      *) thin=(python3 "$(dirname "$0")/thin_program.py" "$binary")
        "${thin[@]}" machine-code "$CAPABILITY" 2>/dev/null || "${thin[@]}" ptx "$CAPABILITY" ;;
    esac
  done
fi

# The C library belongs to the machine: it must fit the loader and the kernel there.
c_library='^(ld-linux.*|libc|libm|libdl|librt|libpthread|libresolv|libutil)\.so'
LD_LIBRARY_PATH="$(realpath "$output")/paper" ldd "${binaries[@]}" |
  awk '$2 == "=>" && $3 ~ /^\// {print $1, $3}' | sort -u | while read -r name path; do
  [[ $name =~ $c_library || $path == "$(realpath "$output")"/* ]] && continue
  install -s -m 644 "$path" "$output/lib/$name"
done

if [ "${DIST_CUDA:-off}" = on ]; then
  toolkit=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")
  find "$toolkit/lib64/" -type f -name 'lib*.so.[0-9]*' | while read -r path; do
    # By the name that programs ask for; files may carry a longer version.
    name=$(readelf -d "$path" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
    case $name in
      libcublasLt.so.* | libcudnn*.so.* | libnvrtc.so.* | libnvrtc-builtins.so.*)
        install -m 644 "$path" "$output/lib/$name" ;;
    esac
  done
fi

if [ "${CLI:-on}" = on ]; then "$output/gradmill" version >/dev/null; fi
du -sh "$output" | awk '{print "dist: " $2 ", " $1}'
