#!/usr/bin/env bash
# tests/gpu_rehearsal.sh TREE STAGE...: runs stages of tests/gpu.sh in TREE on the emulated GPU, as on a machine that
# has only the toolkit, Python and the contents of .deps/. `tests/gpu.sh rehearse` calls it as root in its own mount and
# network namespaces, so what it hides is hidden only here.
set -euo pipefail

tree=$1
shift
cd "$tree"
mkdir bin python
ip link set lo up

# /usr without the files of the packages, except zlib's library, which CMake itself needs.
mount -t tmpfs none /mnt
mkdir /mnt/usr /mnt/upper /mnt/work
mount --bind /usr /mnt/usr
mount -t overlay none -o lowerdir=/mnt/usr,upperdir=/mnt/upper,workdir=/mnt/work /usr
for deb in .deps/*.deb; do
  [[ $deb == */zlib1g_* ]] || dpkg-deb --fsys-tarfile "$deb" | tar -t | sed 's,^\.,,'
done | grep '^/usr/.*[^/]$' | xargs -d '\n' rm -f

# cuDNN and NCCL laid out as in Python's packages.
toolkit=$(readlink -f /usr/local/cuda)
[[ $toolkit == /usr/* ]] || { echo "gpu_rehearsal: '$toolkit' is not below /usr, of which this has a copy" >&2; exit 1; }
for library in cudnn nccl; do
  mkdir -p python/nvidia/$library/include python/nvidia/$library/lib
  ln -s /mnt"$toolkit"/include/$library* python/nvidia/$library/include
  ln -s /mnt"$toolkit"/lib/lib$library*.so.[0-9] python/nvidia/$library/lib
  rm -rf "$toolkit"/include/$library* "$toolkit"/lib/lib$library*
done

cat >bin/nvidia-smi <<'SH'
#!/bin/sh
case $1 in *compute_cap*) echo 9.0 ;; *) echo "emulated, without a driver" ;; esac
SH
cat >bin/compute-sanitizer <<'SH'
#!/bin/sh
exec "$7" "$8" "$9"
SH
chmod +x bin/*

export GIRO_REHEARSAL=1 PYTHONPATH=$tree/python PATH=$tree/bin:$PATH
tests/gpu.sh "$@"
