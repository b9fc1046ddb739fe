package main

// ofWaits has a defect for each wait that explains itself, and for each bound of the log.
var ofWaits = []mutant{
	{
		defect: "a producer is told why it waits again and again",
		file:   "sources/streamsource/answers.go",
		old:    "why != \"\" && why != a.told",
		new:    "why != \"\"",
		tests:  []string{"TestStallIsExplained"},
	},
	{
		defect: "a reason that is out of date is told",
		file:   "sources/streamsource/answers.go",
		old:    " && a.settled == a.before {",
		new:    " {",
		tests:  []string{"TestStallIsExplained"},
	},
	{
		defect: "a full queue is not told of",
		file:   ingestGo,
		old:    "case stats.Full:",
		new:    "case false:",
		tests:  []string{"TestWhyWaiting"},
	},
	{
		defect: "why the exporter waits outlives its connection",
		file:   "client/connect.go",
		old:    "k.stats.connected, k.stats.waiting = false, \"\"",
		new:    "k.stats.connected = false",
		tests:  []string{"TestWaiting"},
	},
	{
		defect: "a stop names sinks that have nothing left",
		file:   "exporter/stop.go",
		old:    "if l.Pending > 0 {",
		new:    "if true {",
		tests:  []string{"TestStopSaysWhatItWaitsFor"},
	},
	{
		defect: "a failure is said at each attempt",
		file:   "internal/outage/outage.go",
		old:    "if slices.Contains(l.told, text) || ",
		new:    "if slices.Contains(l.told[:0], text) || ",
		tests:  []string{"TestLog"},
	},
	{
		defect: "what fails by turns fills the log",
		file:   "internal/outage/outage.go",
		old:    "if l.spent == maxTold {",
		new:    "if false {",
		tests:  []string{"TestLog", "TestFailuresAreCounted"},
	},
	{
		defect: "a refused line on a full disk is a line of the log",
		file:   "exporter/refusedlog.go",
		old:    "outage.Cause(err)",
		new:    "err.Error()",
		tests:  []string{"TestRefusedLogOnAFullDisk"},
	},
}
