# Creates one environment for all nodes, on a file system that they share: run `bash docs/cluster/environment.sh` once,
# where there is a network, and then `source ~/flowsim/.venv/bin/activate`. EXTRAS: ray, slurm, mujoco, cuda12, cuda13.
set -euo pipefail
cd "${FLOWSIM:-$HOME/flowsim}"
python3 -m venv .venv
.venv/bin/pip install --constraint constraints.txt --editable ".[${EXTRAS:-slurm}]"
# the preset's developed flows are computed and cached on first use: once here, or by every node at once
export FLOWSIM_CACHE="${FLOWSIM_CACHE:-$PWD/cache}"
.venv/bin/flowsim --help > /dev/null && echo "ready: $PWD/.venv; export FLOWSIM_CACHE=$FLOWSIM_CACHE in your jobs"
