#!/usr/bin/env bash
# A Ray cluster of this checkout on 127.0.0.1, for trying things out and for tests. Needs Linux and `make venv`.
#
#   cluster/local.sh start [--nodes N] [--cpus C] [--gpus G] [--port P]   start it, or say that it is running
#   cluster/local.sh status                                               exit 0 when it is up, 1 when it is not
#   eval "$(cluster/local.sh env)"                                        make ray, rayrag and this shell use it
#   cluster/local.sh stop                                                 end it, and nothing but it
#
# N nodes (default 1), each with C CPUs (default: the machine's cores split over the nodes) and G logical GPUs (default:
# the first node has the machine's own). P is the port of the control store (default 6379, or a free one if taken); the
# dashboard, which takes jobs, is on 8265, or a free one. Several checkouts may each run theirs. Clients need the token,
# which lies in .cluster/ (RAYRAG_CLUSTER_STATE names another folder). Logs are gone after `stop`.
set -euo pipefail

root="$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd)"
bin="$root/.venv/bin"
state="${RAYRAG_CLUSTER_STATE:-$root/.cluster}"

fail() { # MESSAGE [EXIT-CODE]
    echo "cluster/local.sh: $1" >&2
    exit "${2:-2}"
}

python() {
    "$bin/python" -I - "$@"
}

# "PID COMMAND" of each process of the cluster: all that carry its mark, RAYRAG_CLUSTER=<its temp folder>, in their
# environment, and all in the sessions of those, since workers overwrite their environment with a title. (`ray stop`
# would end every Ray of this machine.)
members() {
    [[ -e "$state/folder" ]] || return 0
    python "$(< "$state/folder")" <<'EOF'
import os, pathlib, sys

mark = f"RAYRAG_CLUSTER={sys.argv[1]}".encode()
processes, sessions = [], set()
for folder in pathlib.Path("/proc").glob("[0-9]*"):
    try:
        head, _, tail = (folder / "stat").read_text().rpartition(") ")
        marked = mark in (folder / "environ").read_bytes().split(b"\0")
    except OSError:  # it has ended, or is another user's
        continue
    condition, _, _, session = tail.split()[:4]
    if condition != "Z":
        processes.append((folder.name, head.partition(" (")[2].replace(" ", "_"), session))
    if marked:
        sessions.add(session)
for pid, command, session in processes:
    if session in sessions:
        print(pid, command)
EOF
}

# Whether all nodes are there and both ports answer.
healthy() {
    local nodes port dashboard
    [[ -e "$state/ready" ]] || return 1
    read -r nodes port dashboard < "$state/ready"
    [[ "$(members | grep -c ' raylet$')" == "$nodes" ]] || return 1
    for port in "$port" "$dashboard"; do
        (: < "/dev/tcp/127.0.0.1/$port") 2>/dev/null || return 1
    done
}

free_ports() { # WANTED...: each wanted port, or a free one where it is taken
    python "$@" <<'EOF'
import socket, sys

sockets = []
for wanted in map(int, sys.argv[1:]):
    for port in (wanted, 0):
        candidate = socket.socket()
        candidate.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            candidate.bind(("127.0.0.1", port))
        except OSError:
            continue
        sockets.append(candidate)  # kept open, so that no port is given twice
        break
print(*(held.getsockname()[1] for held in sockets))
EOF
}

start() {
    local nodes=1 cpus="" gpus="" wanted=6379 folder port dashboard client node
    while (($#)); do
        [[ "${2:-}" =~ ^[0-9]+$ ]] || fail "$1 needs a number"
        case "$1" in
            --nodes) nodes="$2" ;;
            --cpus) cpus="$2" ;;
            --gpus) gpus="$2" ;;
            --port) wanted="$2" ;;
            *) fail "unknown option $1: see the head of this script" ;;
        esac
        shift 2
    done
    ((nodes >= 1)) || fail "--nodes must be at least 1"
    [[ -x "$bin/ray" ]] || fail "no $bin/ray: run \`make venv\` first"
    [[ "$bin" != *[[:space:]]* ]] || fail "Ray cannot start workers from a path with spaces: move the checkout from $root"
    if healthy; then
        echo "already running"
        return
    fi
    stop > /dev/null

    # Ray's sockets lie here, and their paths must be shorter than 108 bytes: not in a deep checkout or TMPDIR.
    folder="$(mktemp -d /tmp/rayrag-XXXXXX)"
    echo "$folder" > "$state/folder"
    (umask 077 && python > "$state/token" <<< 'import secrets; print(secrets.token_hex(32), end="")')
    read -r port dashboard client <<< "$(free_ports "$wanted" 8265 10001)"
    ((cpus = cpus ? cpus : ($(nproc) + nodes - 1) / nodes))

    # Ray replaces 127.0.0.1 by the machine's own address and then listens on all interfaces. The variable that keeps it
    # from that also makes it refuse a second node, hence this line.
    local loopback='from ray._private import ray_constants, services
from ray.scripts.scripts import main

assert not ray_constants.ENABLE_RAY_CLUSTER
ray_constants.ENABLE_RAY_CLUSTER = True
services.resolve_ip_for_localhost = lambda host: host
main()'
    # In a session of their own, so that Ctrl-C here does not reach them; the lock's file must not be theirs.
    # Jobs run `python` from this PATH. The Serve settings are read when a process starts: a YAML file cannot give them.
    ray_start() {
        env -u RAY_ADDRESS -u RAY_API_SERVER_ADDRESS -u RAY_AUTH_TOKEN \
            PATH="$bin:$PATH" RAYRAG_CLUSTER="$folder" RAY_TMPDIR="$folder" \
            RAY_AUTH_MODE=token RAY_AUTH_TOKEN_PATH="$state/token" RAY_USAGE_STATS_ENABLED=0 RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER=0 \
            RAY_SERVE_THROUGHPUT_OPTIMIZED="${RAY_SERVE_THROUGHPUT_OPTIMIZED-1}" \
            RAY_SERVE_ENABLE_HA_PROXY="${RAY_SERVE_ENABLE_HA_PROXY-1}" \
            setsid --wait "$bin/python" -c "$loopback" start --node-ip-address=127.0.0.1 --num-cpus="$cpus" \
            --object-store-memory="${RAYRAG_OBJECT_STORE_BYTES:-1000000000}" --dashboard-agent-listen-port=0 \
            --disable-usage-stats "$@" > "$folder/start.log" 2>&1 9>&- || {
            tail -n 20 "$folder/start.log" >&2
            stop > /dev/null
            fail "Ray did not start: see the lines above" 3
        }
    }
    ray_start --head --port="$port" --ray-client-server-port="$client" ${gpus:+--num-gpus="$gpus"} \
        --dashboard-host=127.0.0.1 --dashboard-port="$dashboard"
    for ((node = 2; node <= nodes; node++)); do
        ray_start --address="127.0.0.1:$port" --num-gpus="${gpus:-0}"
    done
    echo "$nodes $port $dashboard" > "$state/ready"
    status
}

status() {
    local nodes port dashboard
    healthy || {
        echo "not running"
        return 1
    }
    read -r nodes port dashboard < "$state/ready"
    echo "running: $nodes node(s) at 127.0.0.1:$port, dashboard and jobs at http://127.0.0.1:$dashboard"
}

environment() {
    local nodes port dashboard
    healthy || fail "the cluster is not running: cluster/local.sh start" 1
    read -r nodes port dashboard < "$state/ready"
    echo "unset RAY_AUTH_TOKEN"
    printf 'export %s=%q\n' RAY_AUTH_MODE token RAY_AUTH_TOKEN_PATH "$state/token" \
        RAY_ADDRESS "127.0.0.1:$port" RAY_API_SERVER_ADDRESS "http://127.0.0.1:$dashboard" RAY_USAGE_STATS_ENABLED 0 RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER 0
    [[ ":$PATH:" == *":$bin:"* ]] || printf 'export PATH=%q:"$PATH"\n' "$bin"
}

# Raylets first and politely: they end their workers and free shared memory. The rest has nothing to lose.
stop() {
    local pids tries
    pids="$(members | awk '$2 == "raylet" { print $1 }')"
    [[ -z "$pids" ]] || kill $pids 2>/dev/null || true
    for ((tries = 0; tries < 50; tries++)); do
        members | grep -q ' raylet$' || break
        sleep 0.1
    done
    for ((tries = 0; tries < 50; tries++)); do
        pids="$(members | cut -d' ' -f1)"
        [[ -n "$pids" ]] || break
        kill -9 $pids 2>/dev/null || true
        sleep 0.1
    done
    [[ -z "$pids" ]] || fail "cannot end these processes: ${pids//$'\n'/ }" 3
    [[ ! -e "$state/folder" ]] || rm -rf "$(< "$state/folder")"
    rm -f "$state"/{folder,ready,token}
    echo "stopped"
}

[[ "$(uname)" == Linux ]] || fail "this script reads Linux's /proc; use \`ray start --head\` here"
mkdir -p "$state"
exec 9> "$state/lock"
case "${1:-}" in
    start) flock 9 && start "${@:2}" ;;
    stop) flock 9 && stop ;;
    status) status ;;
    env) environment ;;
    *) fail "say start, stop, status or env: see the head of this script" ;;
esac
