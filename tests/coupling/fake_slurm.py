"""A stand-in for SLURM on one machine: sbatch, srun, sacct, scancel and scontrol, as far as submitit calls them.

Every command is this file under another name. A job is a process that runs the script again when it was requeued; its
state lies in a file of the folder $FAKE_SLURM. While that folder has a file `full`, jobs stay in the queue.
"""

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from pathlib import Path

FOLDER = Path(os.environ["FAKE_SLURM"])
COMMANDS = ("sbatch", "srun", "sacct", "scancel", "scontrol")


def install(folder: Path) -> None:
    for name in COMMANDS:
        command = folder / name
        command.write_text(f'#!/bin/sh\nexec {sys.executable} {__file__} {name} "$@"\n')
        command.chmod(0o755)


def note(job: str, **changes) -> dict:
    file = FOLDER / f"{job}.json"
    content = (json.loads(file.read_text()) if file.exists() else {}) | changes
    beside = file.with_suffix(f".{os.getpid()}")
    beside.write_text(json.dumps(content))
    beside.replace(file)
    return content


def sbatch(script: str, *words: str) -> None:
    options = dict(re.findall(r"#SBATCH --([a-z-]+)=?(.*)", Path(script).read_text()))
    first = 1 + max((int(file.stem.split("_")[0]) for file in FOLDER.glob("*.json")), default=0)
    last = re.match(r"0-(\d+)", options.get("array", ""))
    jobs = [f"{first}_{task}" for task in range(int(last[1]) + 1)] if last else [str(first)]
    copy = FOLDER / f"{first}-{Path(script).name}"
    copy.write_text(Path(script).read_text())
    for job in jobs:
        note(job, state="PENDING", script=str(copy), words=words, options=options)
        subprocess.Popen(
            [sys.executable, __file__, "run", job],
            stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, start_new_session=True,
        )  # fmt: skip
    print(f"Submitted batch job {first}")


def run(job: str) -> None:
    """What slurmctld and the node do for a job."""
    array, _, task = job.partition("_")
    variables = {
        "SLURM_JOB_ID": job,
        "SLURM_PROCID": "0",
        "SLURM_LOCALID": "0",
        "SLURM_NODEID": "0",
    }
    variables["SLURM_NTASKS"] = note(job)["options"].get("ntasks", "1")
    if task:
        variables |= {"SLURM_ARRAY_JOB_ID": array, "SLURM_ARRAY_TASK_ID": task}
    state = "PENDING"
    while state in ("PENDING", "REQUEUED"):
        while (FOLDER / "full").exists():
            if note(job)["state"] == "CANCELLED":
                return
            time.sleep(0.05)
        command = ["bash", note(job)["script"], *note(job)["words"]]
        process = subprocess.Popen(command, env=os.environ | variables, start_new_session=True)
        note(job, state="RUNNING", group=process.pid, starts=note(job).get("starts", 0) + 1)
        code = process.wait()
        state = note(job)["state"]
        if state == "RUNNING":
            state = note(job, state="FAILED" if code else "COMPLETED")["state"]


def srun(*words: str) -> None:
    words = list(words)
    files, tasks = {}, 1
    while words[0].startswith("--"):
        option, _, value = words.pop(0).partition("=")
        if option in ("--output", "--error"):
            name = (
                words.pop(0)
                .replace("%A_%a", os.environ["SLURM_JOB_ID"])
                .replace("%j", os.environ["SLURM_JOB_ID"])
            )
            files[option] = open(name.replace("%t", "0"), "a")  # noqa: SIM115
        elif option == "--ntasks":
            tasks = int(value)
    processes = [
        subprocess.Popen(
            words, stdout=files.get("--output"), stderr=files.get("--error"),
            env=os.environ | {"SLURM_PROCID": str(task)},
        )
        for task in range(tasks)
    ]  # fmt: skip
    sys.exit(max(process.wait() & 255 for process in processes))


def sacct(*words: str) -> None:
    print("JobID|State|NodeList")
    for file in sorted(FOLDER.glob("*.json")):
        print(f"{file.stem}|{json.loads(file.read_text())['state']}|here")


def scancel(job: str) -> None:
    group = note(job, state="CANCELLED").get("group")
    if group:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(group, signal.SIGKILL)


def scontrol(requeue: str, job: str) -> None:
    assert requeue == "requeue"
    note(job, state="REQUEUED")


if __name__ == "__main__":
    name, *words = sys.argv[1:]
    {
        "sbatch": sbatch,
        "run": run,
        "srun": srun,
        "sacct": sacct,
        "scancel": scancel,
        "scontrol": scontrol,
    }[name](*words)
