package main

// rsyslog of Debian has no plain HTTP output: what it has speaks the bulk protocol of
// Elasticsearch, which adds a short line to each record.
var rsyslog = peer{
	name:     "rsyslog",
	packages: []string{"rsyslog", "rsyslog-elasticsearch"},
	template: "rsyslog.conf",
	settings: []setting{
		{name: "default", about: "queue in memory; it slows its producers down when that is nearly full"},
		{
			name:  "strict",
			about: "queue on disk; each record synced by itself (fdatasync, and fsync of the directory), the state of the queue written after each; files synced",
		},
	},
	command: func(in installation, file string, at place) command {
		return command{
			name: in.binary("usr/sbin/rsyslogd"),
			args: []string{"-n", "-i", "NONE", "-f", file, "-M", in.directory("usr/lib/*/rsyslog")},
			env:  in.libraries(),
		}
	},
}
