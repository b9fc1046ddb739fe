#!/usr/bin/env bash
# Runs a node as long as the standard input is open, and removes what it leaves behind: when
# the test program ends, however it ends, the system closes its end of the pipe.
#
#   life.sh GROUP DIR PROGRAM ARGS...
#
# Prints the process id of unshare, whose only child is the first process of the node. Mounts,
# network and every process of the node end with that child. GROUP is its directory in each
# hierarchy of control groups, DIR its directory of files.
set -euo pipefail

group=$1 dir=$2
shift 2
trap '' INT TERM HUP PIPE # it ends with its input, and nobody may read what it says then

hierarchies() {
	local h
	for h in /sys/fs/cgroup /sys/fs/cgroup/*; do
		if [[ $(stat -f -c %T "$h") == cgroup*fs && -w $h ]]; then echo "$h"; fi
	done
}

# remove DIRECTORY: a control group with those in it, which the last processes leave by and by
remove() {
	local i
	for ((i = 0; i < 600; i++)); do
		find "$1" -depth -type d -exec rmdir {} + 2>/dev/null || true
		[[ -d $1 ]] || return 0
		sleep 0.1
	done
	echo "life.sh: $1 is still in use" >&2 || true
}

for h in $(hierarchies); do
	# What a run left behind that was killed together with its life.sh.
	for old in "$h"/docket-nodetest-*; do
		if [[ -d $old && ! -d /proc/${old##*-} ]]; then remove "$old"; fi
	done
	mkdir -p "$h/$group"
	if [[ -e $h/cpuset.cpus && ! -e $h/cgroup.controllers ]]; then
		cat "$h/cpuset.cpus" >"$h/$group/cpuset.cpus"
		cat "$h/cpuset.mems" >"$h/$group/cpuset.mems"
	fi
done

# Should this shell be killed, the node ends as well.
setpriv --pdeathsig KILL unshare --mount --propagation private --net --pid --uts --ipc --fork --kill-child --mount-proc \
	"$@" </dev/null >"$dir/log/node.log" 2>&1 &
node=$!
echo "$node"
exec >&-
cat >/dev/null || true
kill -KILL "$node" 2>/dev/null || true
wait "$node" 2>/dev/null || true
for h in $(hierarchies); do
	if [[ -d $h/$group ]]; then remove "$h/$group"; fi
done
rm -rf "$dir"
