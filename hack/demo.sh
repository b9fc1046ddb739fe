#!/usr/bin/env bash
# Shows the exporter at work: real decisions from testdata/records travel from a
# Unix socket through the queue on disk into a file export. Run by `make demo`,
# which builds bin/docket first. Needs nothing else, and leaves ./docket-data to
# look at.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

data=docket-data
mark=$data/.made-by-demo
log=$(mktemp)

if [[ -e $data && ! -e $mark ]]; then
	echo "demo: ./$data exists and is not the demo's: move it away first" >&2
	exit 1
fi
rm -rf "$data"
mkdir -m 700 "$data"
touch "$mark"

bold='' plain=''
if [[ -t 1 ]]; then bold=$'\033[1m' plain=$'\033[0m'; fi
say() { printf '\n%s%s%s\n' "$bold" "$*" "$plain"; }

say "\$ docket run"
bin/docket run --log-format text >"$log" 2>&1 &
exporter=$!
stop() {
	kill "$exporter" 2>/dev/null || true
	wait "$exporter" 2>/dev/null || true
	rm -f "$log"
}
trap stop EXIT

# status answers as soon as the exporter does.
for ((i = 0; i < 100; i++)); do
	bin/docket status >/dev/null 2>&1 && break
	if ! kill -0 "$exporter" 2>/dev/null; then
		cat "$log" >&2
		exit 1
	fi
	sleep 0.1
done
echo "listening on ./$data/docket.sock"

lines=0
for file in testdata/records/*.ndjson; do
	say "\$ docket send $file"
	bin/docket send "$file"
	lines=$((lines + $(wc -l <"$file")))
done

say "waiting until the file sink has all $lines"
delivered() { bin/docket status -o json | tr -d ' ' | grep -c "^\"delivered\":$lines,$" || true; }
for ((i = 0; i < 100; i++)); do
	[[ $(delivered) == 1 ]] && break
	sleep 0.1
done
if [[ $(delivered) != 1 ]]; then
	echo "demo: the file sink did not take them within 10 s" >&2
	bin/docket status >&2
	cat "$log" >&2
	exit 1
fi

say "\$ docket status"
bin/docket status

say "\$ kill -TERM $exporter"
kill "$exporter"
wait "$exporter"
trap 'rm -f "$log"' EXIT
tail -n 1 "$log"

say "the export: $(pwd)/$data/export/decisions-active.ndjson"
wc -l "$data/export/decisions-active.ndjson"
head -n 2 "$data/export/decisions-active.ndjson" | cut -c 1-160
