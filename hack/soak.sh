#!/usr/bin/env bash
# make soak: the long proofs, each a step that goes on after a failure of another. Arguments are the names of steps to
# run alone. It takes hours; on Debian it installs what is missing.
set -uo pipefail
cd "$(dirname "$0")/.."
exec </dev/null
. hack/steps.sh
export CI=true
logs=.cache/soak
rm -rf "$logs" .cache/flaky.*
mkdir -p "$logs"

failed=0
# part NAME LIMIT COMMAND...: a step, if it is asked for.
part() {
	[ ${#only[@]} -eq 0 ] || [[ " ${only[*]} " == *" $1 "* ]] || return 0
	step "$@" || failed=1
}
only=("$@")

prepare() {
	install make=make strace=strace /usr/sbin/nginx=nginx-light ip=iproute2 nsenter=util-linux openssl=openssl \
		python3=python3 jq=jq zstd=zstd curl=curl chromium-headless-shell=chromium-headless-shell
}
export -f prepare install
part prepare 20m bash -euc prepare
part check 60m make check
part long 120m make test-long
part later 30m make test-later
part crash 90m make crash
part fuzz 60m make fuzz
part release 60m make release-snapshot
part docs 15m make docs
part timed 60m bash -euc 'cd test && go test -tags soak -vet=off -count=1 -timeout 55m -v -run "^(TestAlerts|TestFaults)$" ./monitoring ./admission' # alerts at 60 times the speed, a loss of at most a second
part chaos 120m make chaos
part pods 60m make pods
flaky
cat "$logs/table"
exit $failed
