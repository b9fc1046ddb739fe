# Steps of a long run and their table, for .ci/run and hack/soak.sh, which source this file with bash.
# Each needs a directory $logs for the output of the steps.

say() { printf '%s %s\n' "$(date -u +%H:%M:%SZ)" "$*"; }

# step NAME LIMIT COMMAND...: run a command, keep what it prints in $logs/NAME.log, and note in
# $logs/table how it went. Of a failure the last 60 lines are shown, and the step fails. LIMIT, as
# of timeout, only ends a command that hangs.
step() {
	local name=$1 limit=$2 began=$SECONDS result=ok code=0
	shift 2
	say "begin $name"
	timeout --kill-after=30s "$limit" "$@" >"$logs/$name.log" 2>&1 || code=$?
	case $code in
	0) ;;
	124 | 137) result="FAILED: not done after $limit" ;;
	*) result=FAILED ;;
	esac
	printf '%6ds  %-10s %s\n' $((SECONDS - began)) "$name" "$result" >>"$logs/table"
	if [ $code -ne 0 ]; then
		tail -n 60 "$logs/$name.log"
	else
		grep -E '^(DONE |summary: )' "$logs/$name.log" || true
	fi
	say "end   $name: $result"
	return $code
}

# install COMMAND=PACKAGE...: install the Debian packages whose command is missing.
install() {
	local pair packages=()
	for pair in "$@"; do
		command -v "${pair%%=*}" >/dev/null || packages+=("${pair#*=}")
	done
	# A C compiler without the C library's headers builds no race detector.
	printf '#include <stdlib.h>\nint main(void) { return 0; }\n' | cc -x c -o /dev/null - 2>/dev/null || packages+=(gcc libc6-dev)
	[ ${#packages[@]} -eq 0 ] && return
	echo "missing: ${packages[*]}"
	if ! command -v apt-get >/dev/null; then
		echo "no apt-get here: install them by hand"
		return 1
	fi
	local root=()
	[ "$(id -u)" -eq 0 ] || root=(sudo -n)
	"${root[@]}" apt-get update -q &&
		"${root[@]}" env DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends "${packages[@]}"
}

# flaky names each test that failed and then passed alone.
flaky() {
	cat .cache/flaky.* 2>/dev/null | sed -n 's/^/FLAKY, a defect to mend before anything new: /p' || true
}
