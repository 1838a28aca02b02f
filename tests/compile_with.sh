#!/usr/bin/env bash
# compile_with.sh CLANG GXX COMMAND...: runs a command in which GXX compiles with CLANG in its place, except where OpenMP
# is on: such code is compiled as the library is.
set -euo pipefail

clang=$1 gxx=$2 command=()
shift 2
[[ " $* " != *" -fopenmp"* ]] || exec "$@"
[[ " $* " == *" $gxx "* ]] || { echo "compile_with.sh: $gxx is not in: $*" >&2; exit 1; }
while [ $# -gt 0 ]; do
  case $1 in
    "$gxx") command+=("$clang") ;;
    --param) shift ;;  # of g++'s garbage collector
    *.gch)  # CMake has g++ include the header that it precompiles: clang would take the older one
      rm -f "$1"
      command+=("$1")
      ;;
    *) command+=("$1") ;;
  esac
  shift
done
exec "${command[@]}" -Xclang -fno-pch-timestamp  # ccache may return an older precompiled header
