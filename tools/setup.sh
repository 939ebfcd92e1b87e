#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Installs the build dependencies that are missing on this machine. If nothing is missing, it does nothing and needs no
# network.
set -euo pipefail

packages=(g++ cmake ninja-build libdnnl-dev libhwy-dev libfmt-dev libcli11-dev nlohmann-json3-dev libyaml-cpp-dev libgtest-dev
  libsimdjson-dev libutf8proc-dev libzstd-dev zlib1g-dev)

if ! command -v apt-get >/dev/null || ! command -v dpkg-query >/dev/null; then
  cat <<TEXT
This is not a Debian-like system, so nothing was installed. The build needs, by their Debian names:
  ${packages[*]}
On Fedora: gcc-c++ cmake ninja-build onednn-devel highway-devel fmt-devel cli11-devel json-devel yaml-cpp-devel utf8proc-devel gtest-devel simdjson-devel libzstd-devel zlib-devel
On Arch:   gcc cmake ninja onednn highway fmt cli11 nlohmann-json yaml-cpp libutf8proc gtest simdjson zstd zlib
TEXT
  exit 0
fi

missing=()
for package in "${packages[@]}"; do
  [ "$(dpkg-query -W -f '${db:Status-Status}' "$package" 2>/dev/null || true)" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -eq 0 ] && exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  if ! command -v sudo >/dev/null; then
    echo "setup: these packages are missing and sudo is not here; install them as root: apt-get install ${missing[*]}" >&2
    exit 1
  fi
  as_root=(sudo)
fi
echo "setup: installing ${missing[*]}"
"${as_root[@]}" apt-get update -qq
DEBIAN_FRONTEND=noninteractive "${as_root[@]}" apt-get install -y -qq --no-install-recommends "${missing[@]}" >/dev/null
