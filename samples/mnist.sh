#!/usr/bin/env bash
# Installs what is missing, builds giro, and trains the MNIST sample. Takes the sample's own options (--help).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
data=(dataset-fashion-mnist)
for arg in "$@"; do
  case $arg in --data | --data=* | --help | -h) data=() ;; esac
done

"$root/cmake/install_dependencies.sh" "${data[@]}"
"$root/cmake/build_sample.sh" mnist
exec "$root/build/samples/mnist" "$@"
