#!/bin/sh
# go mod tidy over every module of the repository; with -diff it changes nothing and fails
# where something would change. go mod tidy knows no workspace and would ask the network
# for versions of our own modules that are not released yet, so it works on copies of the
# go.mod files, in which our modules are replaced by this tree. Modules may be named after -diff.
set -eu
cd "$(dirname "$0")/.."
modules=$(find . -name go.mod -not -path './.cache/*' -not -path '*/testdata/*' -exec dirname {} \; | sort)
name() { awk '/^module / { print $2; exit }' "$1/go.mod"; }
failed=0
diff=
if [ "${1-}" = -diff ]; then
	diff=-diff
	shift
fi
for m in ${*:-$modules}; do
	copy=$PWD/.cache/tidy/$m
	rm -f "$copy"/go.*
	mkdir -p "$copy"
	cp "$m"/go.[ms]* "$copy"
	for own in $modules; do
		[ "${own#./}" = "${m#./}" ] || go mod edit -replace "$(name "$own")=$PWD/$own" "$copy/go.mod"
	done
	echo "tidy $m"
	(cd "$m" && GOWORK=off GOFLAGS= go mod tidy -modfile="$copy/go.mod" $diff) || { failed=1; continue; }
	for own in $modules; do go mod edit -dropreplace "$(name "$own")" "$copy/go.mod"; done
	[ -n "$diff" ] || cp "$copy"/go.[ms]* "$m"
done
exit $failed
