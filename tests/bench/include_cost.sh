#!/usr/bin/env bash
# tests/bench/include_cost.sh [COMPILER]: CPU seconds to compile a user's program at -O0, the fastest of three runs, for
# a program that only includes giro and for the README's.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
compiler=${1:-${CXX:-g++}}
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT
mkdir -p "$folder/include/giro"
for layer in runtime kernels distributed loop callbacks; do
  [ ! -d "$root/$layer" ] || ln -s "$root/$layer" "$folder/include/giro/"
done
ln -s "$root/callbacks/giro.h" "$folder/include/giro/"

echo '#include <giro/giro.h>' >"$folder/include_alone.cpp"
# The README's first C++ block.
awk '/^```cpp/ { inside = 1; next } /^```/ { if (inside) exit } inside' "$root/README.md" >"$folder/readme_program.cpp"

cost() {
  local TIMEFORMAT='%U %S'
  for _ in 1 2 3; do
    { time "$compiler" -std=c++20 -O0 -I "$folder/include" -c "$folder/$1.cpp" -o "$folder/$1.o"; } 2>&1
  done | awk -v name="$1" 'NF != 2 { print; bad = 1; next } { t = $1 + $2; if (!best || t < best) best = t }
                           END { if (bad) exit 1; printf "%-16s %.2f s\n", name, best }'
}
cost include_alone
cost readme_program
