#!/usr/bin/env bash
# compile_with.sh CLANG COMMAND...: runs a command that compiles with g++ with CLANG in its place, except where OpenMP is
# on: such code is compiled as the library is.
set -euo pipefail

clang=$1 command=()
shift
[[ " $* " != *" -fopenmp"* ]] || exec "$@"
while [ $# -gt 0 ]; do
  case $1 in
    */c++ | */g++*) command+=("$clang") ;;
    --param) shift ;;  # of g++'s garbage collector
    *) command+=("$1") ;;
  esac
  shift
done
exec "${command[@]}"
