package main

import "path/filepath"

// syslogNG has no setting that syncs its queue: reliable(yes) writes each record to a
// file before it counts as taken, and leaves to the kernel when that reaches the disk.
var syslogNG = peer{
	name:     "syslog-ng",
	packages: []string{"syslog-ng-core", "syslog-ng-mod-http"},
	template: "syslog-ng.conf",
	settings: []setting{
		{name: "default", about: "queue in memory, no flow control: drops what does not fit into it"},
		{name: "reliable", about: "disk-buffer(reliable(yes)) and flow control; it never syncs its queue"},
		{name: "strict", about: "the same, and fsync(yes) for the file it writes: its queue cannot be synced"},
	},
	command: func(in installation, file string, at place) command {
		return command{
			name: in.binary("usr/sbin/syslog-ng"),
			args: []string{
				"-F", "-f", file, "--module-path", in.directory("usr/lib/syslog-ng/*"),
				"-R", filepath.Join(at.Directory, "persist"), "-c", filepath.Join(at.Directory, "control"),
			},
			env: in.libraries(),
		}
	},
}
