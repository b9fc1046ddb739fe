package main

import "github.com/docket-export/docket/bench/report"

// clientExperiments measure what the client costs those who log, and what a
// connected producer costs docket.
func clientExperiments() []experiment {
	return []experiment{
		{
			Name:  "trylog",
			Title: "What TryLog costs the caller",
			About: "A process logs a decision of 28 fields, a line of 1 KB, to the stripped `docket` binary in bursts of 1,000 calls, while the\n" +
				"burst before is written, synced and acknowledged on the same processors. A burst never meets a full buffer: between two,\n" +
				"with the clock stopped, the process waits until the one before is stored. TryLog copies the record (`decision.Copy`) and\n" +
				"leaves the encoding to another goroutine, whose time is not the caller's: what it costs the caller is the copy, measured\n" +
				"alone in bursts beside the sending, and the place among the lines that wait. The encoding is that of the same record into\n" +
				"a buffer that is used again, at rest. slog and zap encode in the caller, the same fields as JSON to io.Discard, at rest. All\n" +
				"take turns of 10 bursts; the figures are those of the median burst. Allocations are those of the whole process, those of\n" +
				"the encoding and the sending included.",
			Rows: []row{
				{Key: "on", What: "TryLog", Unit: "ns", Target: &report.Target{AtMost: 500}},
				{Key: "onMean", What: "TryLog, mean of all bursts", Unit: "ns"},
				{Key: "onAllocs", What: "TryLog, allocations", Target: &report.Target{AtMost: 1}},
				{Key: "copy", What: "the copy alone, beside the sending", Unit: "ns"},
				{Key: "off", What: "TryLog of a client that is off", Unit: "ns", Target: &report.Target{AtMost: 2}},
				{Key: "offAllocs", What: "TryLog of a client that is off, allocations", Target: &report.Target{Zero: true}},
				{Key: "encode", What: "the encoding, which TryLog leaves to another goroutine, at rest", Unit: "ns"},
				{Key: "encodeAllocs", What: "the encoding, allocations"},
				{Key: "slog", What: "slog with its JSONHandler", Unit: "ns"},
				{Key: "slogAllocs", What: "slog, allocations"},
				{Key: "zap", What: "zap with its JSON encoder", Unit: "ns"},
				{Key: "zapAllocs", What: "zap, allocations"},
				{Key: "share", What: "the copy / TryLog, both beside the sending", Ratio: &ratio{"copy", "on"}},
				{Key: "toSlog", What: "TryLog / slog", Ratio: &ratio{"on", "slog"}},
				{Key: "toZap", What: "TryLog / zap", Ratio: &ratio{"on", "zap"}},
			},
			Charts: []drawn{{Keys: []string{"on", "copy", "encode", "slog", "zap"}, Own: []string{"on", "copy", "encode"}}},
			run:    (*lab).tryLog,
		},
		{
			Name:  "oneclient",
			Title: "One client against eight bare producers",
			About: "The load of durable ingest, intake alone, and the same records from one client with a buffer of the default size, 8 MiB, in a\n" +
				"process of its own: 16 goroutines log ready lines without waiting, except that each waits for the ack of every 384th. The two\n" +
				"take turns of a quarter of the records, and share the processors with docket. What one client can send is measured with a\n" +
				"server that only acknowledges: where that is more than docket takes from eight producers, one client saturates it.",
			Rows: []row{
				{Key: "rate", What: "acknowledged to one client", Unit: "records/s"},
				{Key: "bare", What: "acknowledged to eight bare producers", Unit: "records/s"},
				{Key: "ratio", What: "one client / eight bare producers", Ratio: &ratio{"rate", "bare"}},
				{Key: "alone", What: "one client to a server that only acknowledges", Unit: "records/s"},
				{Key: "saturates", What: "that / what docket takes from eight bare producers", Ratio: &ratio{"alone", "bare"}, Target: &report.Target{AtLeast: 1}},
				{Key: "cpu", What: "processor time of the client for a million records", Unit: "s"},
				{Key: "bareCPU", What: "processor time of the bare producers for a million records", Unit: "s"},
			},
			run: (*lab).oneClient,
		},
		{
			Name:  "connected",
			Title: "1,000 connected producers",
			About: "Resident memory of the stripped `docket` binary, delivering to a file: what 1,000 connections in acknowledged mode add to one\n" +
				"that has sent a record, 3 seconds after the last has said hello; after each has sent one record of 1 KB and has its ack;\n" +
				"and after each has sent 256 of them at once. One producer sends after the other.",
			Rows: []row{
				{Key: "before", What: "resident memory with one producer", Unit: "MB"},
				{Key: "greeted", What: "memory of a producer that has said hello", Unit: "KiB", Target: &report.Target{AtMost: 16}},
				{Key: "one", What: "and has sent one record", Unit: "KiB", Target: &report.Target{AtMost: 16}},
				{Key: "burst", What: "and has sent 256 KB at once", Unit: "KiB"},
			},
			check: (*lab).checkFiles,
			run:   (*lab).connected,
		},
	}
}
