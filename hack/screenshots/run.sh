#!/usr/bin/env bash
# Makes the picture of the page in docs/images with bin/docket at work. Run by `make screenshots`, which
# builds bin/docket first. Needs chromium-headless-shell and Python 3. The decisions are those of testdata/records; the sink siem
# is down, as nothing listens at its address.
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
work=$(mktemp -d)
trap 'kill $(jobs -p) 2>/dev/null || true; wait; rm -rf "$work"' EXIT
cd "$work"
PATH=$root/bin:$PATH

cat > docket.yaml <<'YAML'
apiVersion: docket.dev/v1alpha1
kind: Exporter
sources:
- name: webhook
  unix: {path: webhook.sock}
- name: audit
  unix: {path: audit.sock}
queue: {directory: queue, maxBytes: 1Gi}
admin: {address: 127.0.0.1:9464}
sinks:
- name: compliance
  file: {directory: export}
- name: siem
  http: {url: "http://127.0.0.1:9498/"}
YAML
docket run -f docket.yaml > docket.log 2>&1 &
until docket probe startup -f docket.yaml 2>/dev/null; do sleep 0.2; done

while :; do # some hundred decisions a second
	docket send --socket webhook.sock "$root/testdata/records/gatekeeper-denies.ndjson"
	docket send --socket webhook.sock "$root/testdata/records/opa-decisions.ndjson"
	docket send --socket audit.sock "$root/testdata/records/kubernetes-audit.ndjson"
done > send.log 2>&1 &
sleep "${SECONDS_BEFORE:-60}" # rates are those of the last minute

mkdir -p "$root/docs/images"
python3 "$root/hack/screenshots/page.py" "$root/docs/images/page.png" http://127.0.0.1:9464/ 1200 915 "Not stored"
ls -l "$root/docs/images"
