#!/usr/bin/env bash
# tests/findings.sh [NAME...]: runs these findings (findings/NAME.sh), or all. Exits with 1 if one no longer holds.
set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/../findings" || exit 1
[ $# -gt 0 ] || set -- *.sh
changed=0
for name in "${@%.sh}"; do
  echo "== $name"
  "./$name.sh"
  case $? in
    0) echo "$name: as described" ;;
    77) echo "$name: not run" ;;
    *) echo "$name: HAS CHANGED"; changed=1 ;;
  esac
done
exit $changed
