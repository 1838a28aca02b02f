#!/usr/bin/env bash
# Installs what is missing, builds giro, and learns to predict a column of a CSV file: made-up house prices, unless
# --data names other tables. Takes the sample's own options (--help).
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
"$root/cmake/install_dependencies.sh"
"$root/cmake/build_sample.sh" regression
exec "$root/build/samples/regression" "$@"
