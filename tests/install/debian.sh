#!/usr/bin/env bash
# tests/install/debian.sh PACKAGES ROOT: installs the .deb files of the folder PACKAGES into a bare Debian 12, and builds
# and runs a program there: through CMake and pkg-config, without the CUDA module and with it, but without NVIDIA's
# libraries. ROOT: the folder of that Debian, made with debootstrap if it does not exist. Needs root, and Debian's mirror.
set -euo pipefail

packages=$1 root=$2
here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd)
[ -e "$root/etc/debian_version" ] ||
  debootstrap --variant=minbase --include=g++,cmake,make,pkg-config bookworm "$root" http://deb.debian.org/debian

inside() {
  chroot "$root" env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin DEBIAN_FRONTEND=noninteractive bash -euc "$*"
}

# expect PATTERN COMMAND: runs it in the root; its output must match.
expect() {
  local found
  found=$(inside "$2" 2>&1) || { echo "failed: $2: $found" >&2; exit 1; }
  grep -qE "$1" <<<"$found" || { echo "$2: expected $1, found: $found" >&2; exit 1; }
  echo "$2: $found"
}

rm -rf "$root/giro"
mkdir -p "$root/giro/debs"
cp "$packages"/*.deb "$root/giro/debs"
cp "$here/CMakeLists.txt" "$here/main.cpp" "$root/giro"
inside 'apt-get -q update && dpkg --purge libgiro-cuda libgiro-dev giro-tools libgiro0.1 && cd /giro/debs &&
  apt-get -qy install --no-install-recommends ./libgiro[0-9]*.deb ./libgiro-dev*.deb ./giro-tools*.deb' >"$root/giro/apt.log" 2>&1 ||
  { cat "$root/giro/apt.log" >&2; exit 1; }
inside 'cd /giro && cmake -B build -DCMAKE_BUILD_TYPE=Release && cmake --build build' >/dev/null
expect '^cpu there is no CUDA module /' /giro/build/user
expect '^none$' 'ldd /giro/build/user | grep -E "cuda|cublas|cudnn|nccl" || echo none'
inside 'cd /giro && g++ -std=c++20 -c main.cpp $(pkg-config --cflags giro) && g++ main.o $(pkg-config --libs giro) -o user'
expect '^cpu there is no CUDA module /' /giro/user
expect 'checkpoints' 'giro-checkpoint --help | head -n 1'
inside 'apt-get -qy install /giro/debs/libgiro-cuda*.deb' >>"$root/giro/apt.log" 2>&1
expect '^cpu the CUDA module /.* cannot be loaded: libcudart' /giro/build/user
