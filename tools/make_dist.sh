#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# make_dist.sh BUILD OUTPUT: puts the binary of a build folder, and the shared libraries it needs besides the C library,
# into one relocatable folder. TESTS=on adds the test binaries, or TESTS="name name" only these. DIST_CUDA=on adds cuBLASLt
# and cuDNN (gigabytes), which a machine with CUDA already has. PAPER=FOLDER adds the op tests on the paper GPU from that
# build folder, for tools/gpu_check.sh only. CLI=off omits gradmill itself. CAPABILITY=90 blanks all GPU code except that
# for compute capability 9.0, so that an archive of the folder is small.
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

# In one folder, where gpu_check.sh makes the loader search. Stripping keeps the sections with their PTX.
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

# The C library is the target machine's: it must match its loader and kernel.
c_library='^(ld-linux.*|libc|libm|libdl|librt|libpthread|libresolv|libutil)\.so'
LD_LIBRARY_PATH="$(realpath "$output")/paper" ldd "${binaries[@]}" |
  awk '$2 == "=>" && $3 ~ /^\// {print $1, $3}' | sort -u | while read -r name path; do
  [[ $name =~ $c_library || $path == "$(realpath "$output")"/* ]] && continue
  install -s -m 644 "$path" "$output/lib/$name"
done

if [ "${DIST_CUDA:-off}" = on ]; then
  toolkit=$(dirname "$(dirname "$(readlink -f "$(command -v nvcc)")")")
  find "$toolkit/lib64/" -type f -name 'lib*.so.[0-9]*' | while read -r path; do
    # Under the name that programs request; the file's own name may have a longer version.
    name=$(readelf -d "$path" | sed -n 's/.*SONAME.*\[\(.*\)\]/\1/p')
    case $name in
      libcublasLt.so.* | libcudnn*.so.* | libnvrtc.so.* | libnvrtc-builtins.so.*)
        install -m 644 "$path" "$output/lib/$name" ;;
    esac
  done
fi

if [ "${CLI:-on}" = on ]; then "$output/gradmill" version >/dev/null; fi
du -sh "$output" | awk '{print "dist: " $2 ", " $1}'
