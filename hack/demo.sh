#!/usr/bin/env bash
# Shows the exporter at work: real decisions from testdata/records travel from a
# Unix socket through the queue on disk into a file export. Run by `make demo`,
# which builds bin/docket first. Needs nothing else, and leaves ./docket-data to
# look at.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

data=docket-data
mark=$data/.made-by-demo
config=$data/docket.yaml
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

# The built-in configuration, but for the port of the status: another docket may have
# that, and would answer for this one.
free_port() {
	local port
	for ((i = 0; i < 50; i++)); do
		port=$((20000 + RANDOM % 10000))
		if ! (: <>"/dev/tcp/127.0.0.1/$port") 2>/dev/null; then
			echo "$port"
			return
		fi
	done
	echo "demo: found no free port" >&2
	return 1
}
port=$(free_port)
bin/docket config | sed "s/127\.0\.0\.1:9464/127.0.0.1:$port/" >"$config"

say "\$ docket run -f $config"
bin/docket run -f "$config" --log-format text >"$log" 2>&1 &
exporter=$!
stop() {
	kill "$exporter" 2>/dev/null || true
	wait "$exporter" 2>/dev/null || true
	rm -f "$log"
}
trap stop EXIT

# Its own log says when it takes lines: nobody else can say so in its place.
for ((i = 0; i < 300; i++)); do
	grep -q 'source takes lines' "$log" && break
	if ! kill -0 "$exporter" 2>/dev/null; then
		break
	fi
	sleep 0.1
done
if ! grep -q 'source takes lines' "$log" || ! kill -0 "$exporter" 2>/dev/null; then
	echo "demo: docket run does not take lines; it said:" >&2
	cat "$log" >&2
	exit 1
fi
echo "listening on ./$data/docket.sock"

lines=0
for file in testdata/records/*.ndjson; do
	say "\$ docket send $file"
	bin/docket send --timeout 60s --socket "$data/docket.sock" "$file"
	lines=$((lines + $(wc -l <"$file")))
done

say "waiting until the file sink has all $lines"
delivered() { bin/docket status -f "$config" -o json | tr -d ' ' | grep -c "^\"delivered\":$lines,$" || true; }
for ((i = 0; i < 100; i++)); do
	[[ $(delivered) == 1 ]] && break
	sleep 0.1
done
if [[ $(delivered) != 1 ]]; then
	echo "demo: the file sink did not take them within 10 s" >&2
	bin/docket status -f "$config" >&2
	cat "$log" >&2
	exit 1
fi

say "\$ docket status -f $config"
bin/docket status -f "$config"

say "\$ kill -TERM $exporter"
kill "$exporter"
wait "$exporter"
trap 'rm -f "$log"' EXIT
tail -n 1 "$log"

say "the export: $(pwd)/$data/export/decisions-active.ndjson"
wc -l "$data/export/decisions-active.ndjson"
head -n 2 "$data/export/decisions-active.ndjson" | cut -c 1-160
