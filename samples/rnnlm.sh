#!/usr/bin/env bash
# Installs what is missing, builds giro, and trains a recurrent language model: on the text of Perl's manual, unless
# --data names other files. Takes the sample's own options (--help).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
packages=(perl-doc)
for arg in "$@"; do
  case $arg in --data | --data=* | --help | -h) packages=() ;; esac
done

"$root/cmake/install_dependencies.sh" "${packages[@]}"
"$root/cmake/build.sh" build rnnlm --preset release -DGIRO_TESTS=OFF -DGIRO_NATIVE=ON
data=()
[ ${#packages[@]} -eq 0 ] || data=(--data /usr/share/perl/5.*.*/pod/*.pod)
exec "$root/build/samples/rnnlm" "$@" "${data[@]}"
