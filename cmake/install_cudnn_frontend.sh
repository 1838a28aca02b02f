#!/usr/bin/env bash
# cmake/install_cudnn_frontend.sh: puts the headers of cuDNN's frontend into .deps/cudnn-frontend, where CMake looks for
# them: no distribution packages them, but PyPI does. Does nothing if they are there already.
set -euo pipefail

version=1.32.0
folder=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)/.deps/cudnn-frontend
is_there() {
  local header=$folder/include/cudnn_frontend_version.h
  grep -qs "MAJOR_VERSION ${version%%.*}$" "$header" && grep -qs "MINOR_VERSION $(cut -d. -f2 <<<"$version")$" "$header"
}
! is_there || exit 0
if ! python3 -m pip --version >/dev/null 2>&1; then
  echo "giro: python3 has no pip to get cuDNN's frontend with: the CUDA backend needs nvidia-cudnn-frontend $version" >&2
  exit 3
fi
echo "giro: downloading the headers of nvidia-cudnn-frontend $version from PyPI"
mkdir -p "$folder"
new=$(mktemp -d -p "$folder")
trap 'rm -rf "$new"' EXIT
python3 -m pip --disable-pip-version-check download --quiet --no-deps --only-binary :all: --retries 1 --timeout 15 \
  --dest "$new" "nvidia-cudnn-frontend==$version"
python3 -m zipfile -e "$new"/*.whl "$new/all"
# The headers appear all at once, even if this is interrupted or runs twice at the same time.
[ ! -e "$folder/include" ] || mv "$folder/include" "$new/old"
mv -T "$new/all/include" "$folder/include" || is_there
