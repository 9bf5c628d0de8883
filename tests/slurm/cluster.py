"""A real SLURM of two nodes on this one machine, for as long as tests need it.

    python -m tests.slurm.cluster start      and `stop`, to try the pipeline on it by hand

slurmctld, a slurmd per node and munged are those of the distribution; both nodes have GPUs that are
only device files. The configuration lies in /etc/slurm, since jobs do not inherit SLURM_CONF; one
that lies there already and is not ours is left alone.
"""

from __future__ import annotations

import os
import pwd
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

CONFIGURATION = Path("/etc/slurm")
STATE = Path("/var/lib/adaptermill-slurm")
MUNGE_PID = Path("/run/munge/munged.pid")
OURS = "# Written by the tests of Adaptermill; they may replace it."
NODES, CPUS, GPUS, MEMORY_MB = 2, 16, 2, 256000
FIRST_PORT = 17001

SLURM_CONF = """{ours}
ClusterName=adaptermill
SlurmctldHost={host}(127.0.0.1)
SlurmUser=root
SlurmdUser=root
AuthType=auth/munge
# A requeued job starts again after so many seconds, not after two minutes.
AuthInfo=cred_expire=10
SlurmctldPort=6817
CommunicationParameters=NoCtldInAddrAny,NoInAddrAny
SlurmctldPidFile={state}/run/slurmctld.pid
SlurmdPidFile={state}/run/slurmd.%n.pid
StateSaveLocation={state}/ctld
SlurmdSpoolDir={state}/slurmd.%n
SlurmctldLogFile={state}/log/slurmctld.log
SlurmdLogFile={state}/log/slurmd.%n.log
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
MpiDefault=none
SwitchType=switch/none
ReturnToService=2
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU_Memory
SlurmdParameters=config_overrides
SchedulerType=sched/backfill
SchedulerParameters=sched_interval=1,bf_interval=1
AccountingStorageType=accounting_storage/none
JobAcctGatherType=jobacct_gather/linux
JobAcctGatherFrequency=1
JobAcctGatherParams=UsePss
JobCompType=jobcomp/none
MinJobAge=3600
KillWait=10
GresTypes=gpu
NodeName=node[1-{nodes}] NodeHostname={host} NodeAddr=127.0.0.1 Port=[{first}-{last}] CPUs={cpus} \
RealMemory={memory} Gres=gpu:{gpus} State=UNKNOWN
PartitionName=main Nodes=ALL Default=YES MaxTime=1-00:00:00 DefaultTime=10 DefMemPerCPU=500 State=UP
"""
GRES_CONF = """{ours}
AutoDetect=off
NodeName=node[1-{nodes}] Name=gpu Flags=nvidia_gpu_env File={state}/devices/gpu[0-{last_gpu}]
"""


def why_not() -> str | None:
    """Why no SLURM can be started here, or None."""
    programs = ("slurmctld", "slurmd", "sbatch", "srun", "munged")
    missing = [name for name in programs if shutil.which(name, path=_path()) is None]
    if missing:
        return f"not installed: {', '.join(missing)} (apt-get install slurmctld slurmd munge)"
    if os.geteuid() != 0:
        return "starting a SLURM takes root"
    there = CONFIGURATION / "slurm.conf"
    if there.is_file() and not there.read_text(encoding="utf-8").startswith(OURS):
        return f"{there} belongs to a SLURM of this machine"
    return None


def start() -> None:
    """Starts the daemons afresh and waits until both nodes are idle."""
    stop()
    shutil.rmtree(STATE, ignore_errors=True)
    for name in ("run", "ctld", "log", "devices"):
        (STATE / name).mkdir(parents=True)
    _start_munge()
    _write_configuration()
    _do("slurmctld")
    for number in range(NODES):
        _do("slurmd", "-N", f"node{number + 1}")
    until = time.monotonic() + 60
    while _do("sinfo", "-h", "-N", "-t", "idle", "-o", "%N").split() != _nodes():
        if time.monotonic() > until:
            logs = [path.read_text("utf-8")[-2000:] for path in (STATE / "log").iterdir()]
            raise RuntimeError("the nodes did not come up:\n" + "\n".join(logs))
        time.sleep(0.2)


def stop() -> None:
    """Ends the daemons that `start` started, known by their pid files, and their configuration.

    Snakemake's plugin asks the controller that a configuration names whenever it is loaded, and
    waits for one that is down.
    """
    for name in ("slurm.conf", "gres.conf"):
        path = CONFIGURATION / name
        if path.is_file() and path.read_text(encoding="utf-8").startswith(OURS):
            path.unlink()
    for file in [*STATE.glob("run/*.pid"), STATE / "munged.ours"]:
        if file.is_file():
            pid = int(file.read_text(encoding="utf-8"))
            try:
                os.kill(pid, signal.SIGTERM)
                for _ in range(100):
                    os.kill(pid, 0)
                    time.sleep(0.1)
            except ProcessLookupError:
                pass
            file.unlink(missing_ok=True)


def _nodes() -> list[str]:
    return [f"node{number + 1}" for number in range(NODES)]


def _path() -> str:
    return f"/usr/sbin:{os.environ.get('PATH', os.defpath)}"


def _do(*command: str) -> str:
    environment = {**os.environ, "PATH": _path()}
    options = {"text": True, "env": environment, "check": True, "timeout": 60}
    return subprocess.run(command, stdout=subprocess.PIPE, **options).stdout


def _start_munge() -> None:
    """The daemon by which SLURM knows its users, unless one runs here."""
    if subprocess.run(["munge", "-n"], capture_output=True, check=False).returncode == 0:
        return
    owner = pwd.getpwnam("munge")
    for folder, mode in ((MUNGE_PID.parent, 0o755), (Path("/var/log/munge"), 0o700)):
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(mode)
        os.chown(folder, owner.pw_uid, owner.pw_gid)
    if not Path("/etc/munge/munge.key").is_file():
        _do("runuser", "-u", "munge", "--", "mungekey", "-c", "-k", "/etc/munge/munge.key")
    _do("runuser", "-u", "munge", "--", "munged")
    (STATE / "munged.ours").write_text(MUNGE_PID.read_text("utf-8"), encoding="utf-8")


def _write_configuration() -> None:
    values = {
        **{"ours": OURS, "state": STATE, "host": socket.gethostname().split(".")[0]},
        **{"nodes": NODES, "cpus": CPUS, "gpus": GPUS, "memory": MEMORY_MB},
        **{"first": FIRST_PORT, "last": FIRST_PORT + NODES - 1, "last_gpu": GPUS - 1},
    }
    CONFIGURATION.mkdir(parents=True, exist_ok=True)
    (CONFIGURATION / "slurm.conf").write_text(SLURM_CONF.format(**values), encoding="utf-8")
    (CONFIGURATION / "gres.conf").write_text(GRES_CONF.format(**values), encoding="utf-8")
    for number in range(GPUS):
        # SLURM gives GPUs out by their device files; a copy of /dev/null is one.
        device = STATE / "devices" / f"gpu{number}"
        os.mknod(device, 0o666 | 0o020000, os.makedev(1, 3))


if __name__ == "__main__":
    if reason := why_not():
        sys.exit(reason)
    {"start": start, "stop": stop}[sys.argv[1]]()
