#!/usr/bin/env bash
# Measures a suite of separate processes on this machine: one NATS server, one authority node,
# ticketing and two gateways, with `switchyard bench` as the load. Prints the reports; with a
# folder as argument, also keeps each as JSON there. Ends only what it started.
#
#   scripts/bench.sh [folder]          all scenarios
#   SCENARIOS="idle push" SESSIONS=5000 scripts/bench.sh
#
# SESSIONS (30000) are of the idle scenario, over both gateways; each gateway needs as many
# descriptors as its half.
set -euo pipefail
cd "$(dirname "$0")/.."
out=${1:-}
work=$(mktemp -d)
pids=()
cleanup() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait 2>/dev/null || true
  rm -rf "$work"
}
trap cleanup EXIT

go build -o "$work/" ./services/cmd/switchyard ./gateway/cmd/gateway ./authority/cmd/authority ./ticketing/cmd/ticketing
(cd services && go build -o "$work/nats-server" github.com/nats-io/nats-server/v2)

cat >"$work/nats.conf" <<CONF
listen: 127.0.0.1:18222
max_payload: 8MB
ping_interval: "3s"
ping_max: 2
jetstream { store_dir: "$work/js" }
mappings: {
  "sy.v1.user.*.*.*.push": "sy.v1.slot.{{partition(256,1,2,3)}}.user.push.{{wildcard(1)}}.{{wildcard(2)}}.{{wildcard(3)}}"
  "sy.v1.user.*.*.*.presence": "sy.v1.slot.{{partition(256,1,2,3)}}.user.presence.{{wildcard(1)}}.{{wildcard(2)}}.{{wildcard(3)}}"
}
CONF
export NATS_URL=nats://127.0.0.1:18222
ulimit -n "$(ulimit -Hn)"

start() { # name command [variable=value...]
  local name=$1
  shift
  env "$@" >"$work/$name.log" 2>&1 &
  pids+=($!)
  eval "${name//-/_}_pid=$!"
}
ready() { # name admin
  for _ in $(seq 300); do
    if curl -fsS -o /dev/null "http://$2/readyz" 2>/dev/null; then return; fi
    sleep 0.1
  done
  echo "$1 is not ready:" >&2
  tail -20 "$work/$1.log" >&2
  exit 1
}

start nats "$work/nats-server" -c "$work/nats.conf"
start authority AUTHORITY_ADMIN_LISTEN=127.0.0.1:18210 "$work/authority"
start ticketing TICKETING_ADMIN_LISTEN=127.0.0.1:18110 TICKETING_LISTEN=127.0.0.1:18100 "$work/ticketing"
start gateway-1 GATEWAY_ID=gw-1 GATEWAY_LISTEN=127.0.0.1:18001 GATEWAY_ADMIN_LISTEN=127.0.0.1:18011 "$work/gateway"
start gateway-2 GATEWAY_ID=gw-2 GATEWAY_LISTEN=127.0.0.1:18002 GATEWAY_ADMIN_LISTEN=127.0.0.1:18012 "$work/gateway"
ready authority 127.0.0.1:18210
ready ticketing 127.0.0.1:18110
ready gateway-1 127.0.0.1:18011
ready gateway-2 127.0.0.1:18012

common=(--nats "$NATS_URL" --gateways "ws://127.0.0.1:18001/v1/connect,ws://127.0.0.1:18002/v1/connect")
gateways=(--pid "$gateway_1_pid" --pid "$gateway_2_pid")
everything=("${gateways[@]}" --pid "$authority_pid" --pid "$nats_pid")

run() { # label scenario flags...
  local label=$1 scenario=$2
  shift 2
  case " ${SCENARIOS:-idle push push-max broadcast group storm} " in *" $label "*) ;; *) return ;; esac
  echo "== $label: switchyard bench $scenario $*"
  "$work/switchyard" bench "$scenario" "${common[@]}" "$@" --json >"$work/report.json"
  [ -z "$out" ] || { mkdir -p "$out" && cp "$work/report.json" "$out/$label.json"; }
  cat "$work/report.json"
}

run idle idle --sessions "${SESSIONS:-30000}" --workers 3 "${gateways[@]}"
run push push --sessions 2000 --rate 2000 --duration 20s "${everything[@]}"
run push-max push --sessions 2000 --rate 0 --in-flight 512 --duration 15s "${everything[@]}"
run broadcast broadcast --sessions 2000 --batch 500 --rate 20 --duration 15s "${everything[@]}"
run group group --sessions 2000 --rate 10 --duration 15s "${everything[@]}"
run storm storm --sessions 5000 --concurrency 256 --workers 2 "${everything[@]}"
