#!/bin/bash
# The heavy environment's Python on an emulated processor that has AVX2 and no AVX-512, whatever this machine has.
#
#   tests/stages/haswell.sh -m paceline.stages.cpu.engine serve MODEL --max-model-len 128 --max-num-seqs 2 ...
#
# Needs root (for a /proc/cpuinfo of its own) and Debian's qemu-user. An instruction that the processor does not have ends
# the program, which setting ATEN_CPU_CAPABILITY and the like would not show. Some ten times slower than the machine.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
emulator=$(command -v qemu-x86_64) || { echo "qemu-x86_64 is missing: apt-get install qemu-user" >&2; exit 1; }
venv=$(python3 "$here/requirements/cpu_env.py" venv | tail -1)
folder=$(mktemp -d)
trap 'rm -rf "$folder"' EXIT

# New interpreters are started by sys.executable, so that has to be the emulator too; its environment is the venv's.
mkdir "$folder/bin"
cp "$venv/pyvenv.cfg" "$folder/"
ln -s "$venv/lib" "$folder/lib"
printf '#!/bin/sh\nexec %s -cpu Haswell-noTSX -0 %s/bin/python %s "$@"\n' \
  "$emulator" "$folder" "$(readlink -f "$venv/bin/python")" > "$folder/bin/python"
chmod +x "$folder/bin/python"

# The emulator shows programs the machine's own /proc/cpuinfo.
sed -E '/^flags/ s/ (avx512[a-z0-9_]*|avx_vnni|amx[a-z0-9_]*|gfni|vaes|vpclmulqdq)//g' /proc/cpuinfo > "$folder/cpuinfo"
export FOLDER=$folder PYTHONPATH="$here/operator${PYTHONPATH:+:$PYTHONPATH}"
unshare --mount bash -c 'mount --bind "$FOLDER/cpuinfo" /proc/cpuinfo; exec "$FOLDER/bin/python" "$@"' _ "$@"
