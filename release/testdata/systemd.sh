#!/bin/sh
# Runs systemd as the first process of namespaces of its own, in a copy of this machine's
# files that is never written back, with a package installed:
#
#   systemd.sh WORK PACKAGE INSTALL...
#
# WORK is an empty directory; INSTALL the command that installs PACKAGE, which becomes its last
# argument. systemd gets the units of docket, without what else the machine starts. It ends with the
# standard input of this script, so at the latest with its caller, and its control group is removed.
set -eu
if [ "$1" = inside ]; then
	root=$2/root
	shift 2
	mount -t cgroup2 none "$root/sys/fs/cgroup"
	mount -t proc proc "$root/proc"
	# It sets kernel variables, which are the machine's.
	mount --bind "$root/proc/sys" "$root/proc/sys"
	mount -o remount,ro,bind "$root/proc/sys"
	chroot "$root" "$@"
	units=$root/run/units
	mkdir -p "$units"
	for target in sysinit basic shutdown sockets network-online; do
		printf '[Unit]\nDescription=%s\n' "$target" >"$units/$target.target"
	done
	printf '[Unit]\nWants=sockets.target\n' >"$units/multi-user.target"
	cp "$root"/usr/lib/systemd/system/docket.* "$units"
	rm -rf "$root"/etc/systemd/system/*
	chroot "$root" env SYSTEMD_UNIT_PATH=/etc/systemd/system:/run/units systemctl enable docket.service
	exec chroot "$root" env -i PATH="$PATH" container=other SYSTEMD_UNIT_PATH=/etc/systemd/system:/run/units \
		/lib/systemd/systemd --system --unit=multi-user.target --log-target=console --log-level=info --show-status=no
fi

work=$1
package=$2
shift 2
mount --make-rprivate /
mkdir "$work/files" "$work/groups"
mount -t tmpfs none "$work/files"
mkdir "$work/files/upper" "$work/files/work" "$work/files/root"
root=$work/files/root
mount -t overlay none -o "lowerdir=/,upperdir=$work/files/upper,workdir=$work/files/work" "$root"
mount --rbind /dev "$root/dev"
mount -t sysfs none "$root/sys"
mount -t tmpfs none "$root/run"
# The copy has the files of one file system alone, and the package may be in another.
cp "$package" "$root/run/"
mount -t cgroup2 none "$work/groups"
group=$work/groups/docket-test-$$
mkdir "$group"
exec 3<&0
(
	echo 0 >"$group/cgroup.procs"
	exec unshare --cgroup --mount --pid --fork --kill-child --uts --ipc --net "$0" inside "$work/files" "$@" "/run/${package##*/}"
) &
systemd=$!
(
	cat
	# The first process, not unshare: that ends when all others have.
	kill -KILL $(cat "/proc/$systemd/task/$systemd/children")
) <&3 >/dev/null 2>&1 &
wait "$systemd" || true
find "$group" -depth -type d -exec rmdir {} \;
