#!/usr/bin/env bash
# cmake/install_cudnn_frontend.sh: puts the headers of cuDNN's frontend into .deps/cudnn-frontend, where CMake looks for
# them: no distribution has a package of them, but PyPI has. Does nothing if they are there.
set -euo pipefail

version=1.32.0
folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/.deps/cudnn-frontend
[ ! -e "$folder/include/cudnn_frontend.h" ] || exit 0
if ! python3 -m pip --version >/dev/null 2>&1; then
  echo "giro: python3 has no pip to get cuDNN's frontend with: the CUDA backend needs nvidia-cudnn-frontend $version" >&2
  exit 3
fi
echo "giro: getting the headers of nvidia-cudnn-frontend $version from PyPI"
wheel=$(mktemp -d)
trap 'rm -rf "$wheel"' EXIT
python3 -m pip --disable-pip-version-check download --quiet --no-deps --only-binary :all: --dest "$wheel" \
  "nvidia-cudnn-frontend==$version"
python3 -m zipfile -e "$wheel"/*.whl "$wheel/all"
mkdir -p "$folder"
# Whole or not at all, also if this is interrupted.
cp -r "$wheel/all/include" "$folder/include.$$"
mv -T "$folder/include.$$" "$folder/include"
