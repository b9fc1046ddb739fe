#!/bin/sh
# Nothing on an upgrade: Debian calls it with "upgrade", RPM with the number of packages left.
set -e
case "$1" in
remove | 0)
	if [ -d /run/systemd/system ]; then
		systemctl disable --now docket.service
	fi
	;;
esac
