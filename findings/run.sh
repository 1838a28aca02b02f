#!/usr/bin/env bash
# run.sh [NAME...]: runs these findings, or all of them. Exits with 1 if one no longer holds.
set -uo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")" || exit 1
[ $# -gt 0 ] || set -- $(ls ./*.sh | sed 's|^\./||; s|\.sh$||' | grep -vx run)
changed=0
for name in "$@"; do
  echo "== $name"
  bash "./$name.sh"
  case $? in
    0) echo "$name: as described" ;;
    77) echo "$name: not run" ;;
    *) echo "$name: HAS CHANGED"; changed=1 ;;
  esac
done
exit $changed
