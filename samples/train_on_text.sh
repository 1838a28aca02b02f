#!/usr/bin/env bash
# samples/train_on_text.sh SAMPLE [OPTION...]: installs what is missing, builds giro, and starts a sample that trains on
# text: Perl's manual, unless --data names other files or nothing is trained.
set -euo pipefail

root=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)
sample=$1
shift
packages=(perl-doc)
for arg in "$@"; do
  case $arg in --data | --data=* | --help | -h) packages=() ;; esac
done
case " $* " in *" --steps 0 "* | *" --steps=0 "*) packages=() ;; esac

"$root/cmake/install_dependencies.sh" "${packages[@]}"
"$root/cmake/build_sample.sh" "$sample"
data=()
[ ${#packages[@]} -eq 0 ] || data=(--data /usr/share/perl/5.*.*/pod/*.pod)
exec "$root/build/samples/$sample" "$@" "${data[@]}"
