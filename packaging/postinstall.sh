#!/bin/sh
# The same for a first installation and an upgrade, of Debian's packages and RPM's.
set -e
if command -v systemd-sysusers >/dev/null; then
	systemd-sysusers docket.conf
fi
if [ -d /run/systemd/system ]; then
	systemctl daemon-reload
	systemctl try-restart docket.service
fi
