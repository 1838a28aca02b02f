#!/usr/bin/env bash
# docs/build.sh: makes the site of README.md, docs/ and the API reference, in build-docs/site. Needs Doxygen, and Python
# with pip and venv, for mkdocs-material, which it installs from PyPI into build-docs/venv when it is missing. Fails if a
# page has a dead link, or the API reference a broken reference.
set -euo pipefail

cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=build-docs
mkdocs_material='mkdocs-material>=9.6.5'

missing() {
  echo "giro: docs/build.sh needs $1, which is missing: apt-get install doxygen python3-venv" >&2
  exit 1
}
command -v doxygen >/dev/null || missing doxygen
python3 -c 'import ensurepip, venv' 2>/dev/null || missing "Python's venv"
git rev-parse --git-dir >/dev/null 2>&1 || { echo "giro: docs/build.sh needs a git checkout" >&2; exit 1; }

mkdir -p "$build"
if [ ! -x "$build/venv/bin/mkdocs" ]; then
  echo "giro: installing $mkdocs_material from PyPI into $build/venv"
  rm -rf "$build/venv"
  python3 -m venv "$build/venv"
  "$build/venv/bin/python" -m pip --disable-pip-version-check install --quiet --retries 1 --timeout 15 "$mkdocs_material" || {
    echo "giro: docs/build.sh could not install $mkdocs_material from PyPI" >&2
    rm -rf "$build/venv"
    exit 1
  }
fi

rm -rf "$build/headers" "$build/api" "$build/site"
python3 docs/api.py . "$build/headers"
doxygen - <<EOT
$(cat docs/Doxyfile)
INPUT = $build/headers
STRIP_FROM_PATH = $build/headers
OUTPUT_DIRECTORY = $build
GENERATE_TAGFILE = $build/api.tag
EOT
NO_MKDOCS_2_WARNING=1 "$build/venv/bin/mkdocs" build --quiet
echo "giro: the site is $build/site/index.html"
