#!/usr/bin/env bash
# SPDX-License-Identifier: Apache-2.0
# Puts the headers of cudnn-frontend, from the wheel on PyPI, into FOLDER/include. They are the same for every Python
# version and machine, so one wheel is pinned by its checksum.
#   tools/fetch_cudnn_frontend.sh FOLDER
set -euo pipefail

version=1.18.0
checksum=382ea063b92cbfd5b442cb75ff8422932d78276aecf139e46713ed1ad3d07af4
folder=$1

[ -f "$folder/include/cudnn_frontend.h" ] && exit 0
wheel_dir=$(mktemp -d)
trap 'rm -rf "$wheel_dir"' EXIT

echo "nvidia-cudnn-frontend==$version --hash=sha256:$checksum" >"$wheel_dir/requirements.txt"
python3 -m pip download --quiet --disable-pip-version-check --no-deps --require-hashes --dest "$wheel_dir" \
  --only-binary=:all: --implementation cp --python-version 3.11 --abi cp311 --platform manylinux_2_28_x86_64 \
  --requirement "$wheel_dir/requirements.txt"

# Unpacked to a temporary folder and then moved, so that a partial result is never used.
mkdir -p "$folder"
rm -rf "$folder/include" "$folder/part"
python3 - "$wheel_dir" "$folder/part" <<'PYTHON'
import pathlib, sys, zipfile
wheel = next(pathlib.Path(sys.argv[1]).glob("*.whl"))
with zipfile.ZipFile(wheel) as archive:
    for name in archive.namelist():
        if name.startswith("include/") or name.endswith("/LICENSE.txt") or name.endswith("/LICENSE"):
            archive.extract(name, sys.argv[2])
PYTHON
mv "$folder/part/include" "$folder/include"
rm -rf "$folder/part"
