#!/usr/bin/env bash
# cmake/install_dependencies.sh [PACKAGE...]: installs giro's build dependencies and the given packages with apt. Calls
# apt only if some are missing. Exit code 3: the distribution lacks a package. If there is a CUDA toolkit, it also gets
# the headers of cuDNN's frontend from PyPI; if that fails, giro is built without CUDA.
set -euo pipefail

if [ -e /usr/local/cuda/bin/nvcc ] || command -v nvcc >/dev/null; then
  "$(dirname "${BASH_SOURCE[0]}")/install_cudnn_frontend.sh" || echo "giro: continuing without cuDNN's frontend" >&2
fi

packages=(build-essential cmake libdnnl-dev libfmt-dev nlohmann-json3-dev libcli11-dev zlib1g-dev libxxhash-dev
  libisal-dev libpng-dev "$@")

missing=()
for package in "${packages[@]}"; do
  status=$(dpkg-query -W -f='${db:Status-Status}' "$package" 2>/dev/null) || true
  [ "$status" = installed ] || missing+=("$package")
done
[ ${#missing[@]} -gt 0 ] || exit 0

as_root=()
if [ "$(id -u)" -ne 0 ]; then
  command -v sudo >/dev/null || { echo "giro: needs root or sudo to install: ${missing[*]}" >&2; exit 1; }
  as_root=(sudo)
fi
echo "giro: installing with apt: ${missing[*]}"
log=$(mktemp)
trap 'rm -f "$log"' EXIT
failed() {
  cat "$log" >&2
  echo "giro: apt could not $1" >&2
  exit 1
}
"${as_root[@]}" apt-get update -q </dev/null >"$log" 2>&1 || failed "update its package lists"
absent=()
for package in "${missing[@]}"; do
  apt-cache show "$package" >/dev/null 2>&1 || absent+=("$package")
done
if [ ${#absent[@]} -gt 0 ]; then
  echo "giro: $(. /etc/os-release && echo "$PRETTY_NAME") has no package ${absent[*]}; nothing was installed" >&2
  exit 3
fi
"${as_root[@]}" env DEBIAN_FRONTEND=noninteractive \
  apt-get install -q -y --no-install-recommends "${missing[@]}" </dev/null >"$log" 2>&1 ||
  failed "install: ${missing[*]}"
