package main

import "github.com/docket-export/docket/bench/report"

// sourceExperiments measure the sources that take decisions from engines as they are.
func sourceExperiments() []experiment {
	return []experiment{
		{
			Name:  "export",
			Title: "Reading a finished export of Gatekeeper",
			About: "One finished file of an audit run, five times as many records as above (1 GB), gets its name in the directory that docket\n" +
				"watches. Its only sink cannot deliver. The clock goes from that rename until docket says that all is stored. The plain\n" +
				"program reads the same file 1 MiB at a time and appends it to a fresh file, with an fdatasync as often as docket had commits.\n" +
				"The file is in the page cache.",
			Rows:   fileRows(&report.Target{AtLeast: 0.5}),
			Charts: []drawn{{Keys: []string{"rate", "raw"}, Own: []string{"rate"}}},
			run:    (*lab).readExport,
		},
		{
			Name:   "log",
			Title:  "Reading a log file",
			About:  "The same records as lines of a log file, format json, that docket finds when it starts.",
			Rows:   fileRows(nil),
			Charts: []drawn{{Keys: []string{"rate", "raw"}, Own: []string{"rate"}}},
			run:    (*lab).readLog,
		},
		{
			Name:  "opa",
			Title: "Decision logs of OPA",
			About: "Four connections post gzip bodies of some 32 KB, each an array of decisions with ids of their own, made before the clock\n" +
				"starts. docket has one processor (GOMAXPROCS=1), and its only sink cannot deliver. A body is answered when it is durable.",
			Rows: []row{
				{Key: "rate", What: "decompressed decisions", Unit: "MB/s", Target: &report.Target{AtLeast: 100}},
				{Key: "events", What: "decisions", Unit: "records/s"},
				{Key: "cpuRate", What: "decompressed decisions for a second of processor time", Unit: "MB/s"},
				{Key: "cpu", What: "processor time of docket for a million decisions", Unit: "s"},
			},
			run: (*lab).opa,
		},
		{
			Name:  "idleSources",
			Title: "Sources at rest",
			About: "A Gatekeeper export, a log file, an OPA and a Kubernetes audit endpoint with nothing to do, for 10 seconds after the\n" +
				"first four: after two docket has given memory back, once.",
			Rows: []row{
				{Key: "cpu", What: "processor time of docket in a second", Unit: "ms", Target: &report.Target{AtMost: 1}},
				{Key: "memory", What: "resident memory", Unit: "MB", Target: &report.Target{AtMost: 25}},
			},
			run: (*lab).idleSources,
		},
	}
}

// fileRows are of a measurement in which docket reads a large file.
func fileRows(t *report.Target) []row {
	return []row{
		{Key: "rate", What: "read and durable", Unit: "MB/s"},
		{Key: "perCommit", What: "bytes in a commit", Unit: "KB"},
		{Key: "raw", What: "raw read and durable append", Unit: "MB/s"},
		{Key: "ratio", What: "docket / raw", Ratio: &ratio{"rate", "raw"}, Target: t},
		{Key: "cpu", What: "processor time of docket for a million records", Unit: "s"},
		{Key: "memory", What: "resident memory, peak", Unit: "MB"},
	}
}
