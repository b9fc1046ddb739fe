package main

// docket is what the others are measured beside: the binary of "make build" with its
// default configuration, but for the longest wait between two attempts, which is a
// second for every peer.
var docket = peer{
	name:     "docket",
	template: "docket.yaml",
	settings: []setting{
		{
			name: "default", acknowledged: true,
			about: "acknowledges each record after fdatasync; at most 1,024 of a producer are unacknowledged",
		},
		{
			name:  "plain producers",
			about: "the same configuration; producers write lines and hear nothing, as with the peers",
		},
	},
	command: func(in installation, file string, _ place) command {
		return command{name: in.binary("docket"), args: []string{"run", "-f", file}}
	},
}
