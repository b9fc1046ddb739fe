package main

import "github.com/docket-export/docket/bench/report"

// queueExperiments measure the queue in this process: no socket, no validation.
func queueExperiments() []experiment {
	return []experiment{
		{
			Name:  "queue",
			Title: "The queue alone",
			About: "Eight goroutines append chunks of 64 records to a queue in the same process, each with 1,024 records in\n" +
				"flight: no socket, no validation. The first figure is of laps of 60 MB, between which a cursor takes the records, so\n" +
				"that segments are recycled; then the cursor takes them meanwhile; then nobody takes any, and every segment is a new one.\n" +
				"tidwall/wal gets the same load through a plain group commit: an entry for each record, and a WriteBatch, which syncs, for\n" +
				"all that arrived during the one before. Alone it gets the records from one goroutine that never waits for producers,\n" +
				"like the raw programs, in commits of the size that the laps had. The recycled file is as large as a segment.",
			Rows: append([]row{
				{Key: "rate", What: "appended and durable", Unit: "records/s"},
				{Key: "perCommit", What: "records in a commit"},
				{Key: "taken", What: "while a cursor takes everything", Unit: "records/s"},
				{Key: "growing", What: "while nobody takes anything", Unit: "records/s"},
				{Key: "wal", What: "tidwall/wal behind a group commit", Unit: "records/s"},
				{Key: "walAlone", What: "tidwall/wal alone, in the commits of docket", Unit: "records/s"},
				{Key: "toWAL", What: "docket / tidwall/wal behind a group commit", Ratio: &ratio{"rate", "wal"}, Target: &report.Target{AtLeast: 10}},
				{Key: "takenToRecycled", What: "docket while a cursor takes everything / raw overwrite", Ratio: &ratio{"taken", "recycled"}},
				{Key: "growingToRecycled", What: "docket while nobody takes anything / raw overwrite", Ratio: &ratio{"growing", "recycled"}},
			}, rawRows(&report.Target{AtLeast: 0.7})...),
			Charts: []drawn{{Keys: []string{"rate", "taken", "growing", "wal", "walAlone", "recycled", "appended"}, Own: []string{"rate", "taken", "growing"}}},
			run:    (*lab).queueRates,
		},
		{
			Name:  "append",
			Title: "One record at a time through Append",
			About: "A goroutine appends a record and waits until it is durable; the raw program writes one over another and syncs. They\n" +
				"take turns of 50.",
			Rows: []row{
				{Key: "p50", What: "durable, median", Unit: "us"},
				{Key: "p99", What: "durable, 99th percentile", Unit: "us"},
				{Key: "raw", What: "raw overwrite + fdatasync of a recycled file, median", Unit: "us"},
				{Key: "raw99", What: "the same, 99th percentile", Unit: "us"},
				{Key: "ratio", What: "docket / raw overwrite, median", Ratio: &ratio{"p50", "raw"}, Target: &report.Target{AtMost: 1.25}},
				{Key: "ratio99", What: "docket / raw overwrite, 99th percentile", Ratio: &ratio{"p99", "raw99"}},
			},
			run: (*lab).oneByOne,
		},
		{
			Name:  "read",
			Title: "Reading a backlog",
			About: "A new cursor takes 512 MB in batches of 1 MB and acknowledges each; the raw program reads the same files 1 MB at a time,\n" +
				"each three times in turn. Cold: the page cache has forgotten them.",
			Rows: []row{
				{Key: "cold", What: "cold", Unit: "MB/s"},
				{Key: "rawCold", What: "raw sequential read, cold", Unit: "MB/s"},
				{Key: "warm", What: "in the page cache", Unit: "MB/s"},
				{Key: "rawWarm", What: "raw sequential read, in the page cache", Unit: "MB/s"},
				{Key: "toCold", What: "docket / raw, cold", Ratio: &ratio{"cold", "rawCold"}, Target: &report.Target{AtLeast: 0.8}},
				{Key: "toWarm", What: "docket / raw, in the page cache", Ratio: &ratio{"warm", "rawWarm"}},
			},
			run: (*lab).readBacklog,
		},
		{
			Name:  "cursors",
			Title: "What readers cost the writer",
			About: "The load of the queue alone, in laps of 60 MB. A cursor either takes the records during the lap, as fast as it can,\n" +
				"or after the clock has stopped. The four kinds of lap take turns; segments are recycled in all of them.",
			Rows: []row{
				{Key: "none", What: "appended beside 1 cursor that waits", Unit: "records/s"},
				{Key: "one", What: "beside 1 cursor that follows", Unit: "records/s"},
				{Key: "idle", What: "beside 8 cursors that wait", Unit: "records/s"},
				{Key: "all", What: "beside 8 cursors that follow", Unit: "records/s"},
				{Key: "oneToNone", What: "1 that follows / 1 that waits", Ratio: &ratio{"one", "none"}, Target: &report.Target{AtLeast: 0.75}},
				{Key: "idleToNone", What: "8 that wait / 1 that waits", Ratio: &ratio{"idle", "none"}, Target: &report.Target{AtLeast: 0.9}},
				{Key: "allToOne", What: "8 that follow / 1 that follows", Ratio: &ratio{"all", "one"}, Target: &report.Target{AtLeast: 0.9}},
			},
			run: (*lab).followers,
		},
		{
			Name:  "flat",
			Title: "A large backlog beside a small one",
			About: "The load of the queue alone on a queue that keeps 5 GB and on one that began with 1 MB, lap by lap in turn; after each lap\n" +
				"a cursor takes its records. Nothing is let go, so segments are not recycled.",
			Rows: []row{
				{Key: "small", What: "appended to 1 MB", Unit: "records/s"},
				{Key: "large", What: "appended to 5 GB", Unit: "records/s"},
				{Key: "smallRead", What: "taken at the end of 1 MB", Unit: "records/s"},
				{Key: "largeRead", What: "taken at the end of 5 GB", Unit: "records/s"},
				{Key: "appendRatio", What: "5 GB / 1 MB, appended", Ratio: &ratio{"large", "small"}, Target: &report.Target{AtLeast: 0.9}},
				{Key: "readRatio", What: "5 GB / 1 MB, taken", Ratio: &ratio{"largeRead", "smallRead"}, Target: &report.Target{AtLeast: 0.9}},
			},
			large: true,
			check: (*lab).checkRoom,
			run:   (*lab).flatness,
		},
		{
			Name:  "open",
			Title: "Start with a backlog of 5 GB",
			About: "The queue was closed, or its process was killed in the middle of a load; the page cache still has its files, or has\n" +
				"forgotten them. docket is the stripped binary, from its start to the answer of /readyz.",
			Rows: []row{
				{Key: "closedWarm", What: "open after a close", Unit: "ms", Target: &report.Target{AtMost: 100}},
				{Key: "closedCold", What: "open after a close, cold", Unit: "ms", Target: &report.Target{AtMost: 100}},
				{Key: "crashedWarm", What: "open after a kill", Unit: "ms", Target: &report.Target{AtMost: 100}},
				{Key: "crashedCold", What: "open after a kill, cold", Unit: "ms", Target: &report.Target{AtMost: 100}},
				{Key: "first", What: "the same until a first new record is durable", Unit: "ms"},
				{Key: "ready", What: "docket ready after a kill", Unit: "ms", Target: &report.Target{AtMost: 100}},
				{Key: "memory", What: "resident memory of docket then, peak", Unit: "MB"},
			},
			large: true,
			check: (*lab).checkRoom,
			run:   (*lab).opening,
		},
	}
}
