#!/usr/bin/env bash
# cmake/build.sh FOLDER TARGET [CMAKE OPTION...]: configures and builds into FOLDER, silent unless it fails.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
folder=$root/$1 target=$2
shift 2
mkdir -p "$folder"
# A configured folder keeps its generator.
[ -e "$folder/CMakeCache.txt" ] || ! command -v ninja >/dev/null || export CMAKE_GENERATOR=${CMAKE_GENERATOR:-Ninja}
echo "giro: building $target in ${folder#"$PWD"/}"
if ! { cmake -S "$root" -B "$folder" "$@" &&
       cmake --build "$folder" --target "$target" --parallel "$(nproc)"; } >"$folder/build.log" 2>&1; then
  tail -n 60 "$folder/build.log" >&2
  echo "giro: the build failed; its full output is in $folder/build.log" >&2
  exit 1
fi
