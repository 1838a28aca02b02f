#!/usr/bin/env bash
# Installs what is missing, builds giro, and trains a ResNet-18: on random images, unless --data names CIFAR-10's folder.
# Takes the sample's own options (--help).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/cmake/install_dependencies.sh"
"$root/cmake/build_sample.sh" resnet
exec "$root/build/samples/resnet" "$@"
