package main

import "github.com/docket-export/docket/bench/report"

// deliveryExperiments measure docket from the disk to a destination.
func deliveryExperiments() []experiment {
	return []experiment{
		{
			Name:  "accepting",
			Title: "Delivery of a backlog to sinks that accept everything",
			About: "An exporter in the same process, with batches of the default size, delivers a backlog of four times as many records to a\n" +
				"sink that accepts everything and does nothing with it, and to eight such sinks at once, each of which gets all records. A bare\n" +
				"cursor takes them too. Each three times in turn; what is read is in the page cache.",
			Rows: []row{
				{Key: "rate", What: "delivered to one sink", Unit: "records/s", Target: &report.Target{AtLeast: 1e6}},
				{Key: "cpu", What: "processor time for a million records", Unit: "s"},
				{Key: "many", What: "delivered to eight sinks, all together", Unit: "records/s", Target: &report.Target{AtLeast: 1e6}},
				{Key: "manyCPU", What: "processor time for a million of these", Unit: "s"},
				{Key: "taken", What: "taken by a bare cursor", Unit: "records/s"},
				{Key: "ratio", What: "delivered to one sink / taken by a bare cursor", Ratio: &ratio{"rate", "taken"}},
			},
			Charts: []drawn{{Keys: []string{"rate", "many", "taken"}, Own: []string{"rate", "many"}}},
			run:    (*lab).accepting,
		},
		{
			Name:  "backlog",
			Title: "Delivery of a backlog to a file",
			About: "100,000 records are stored while nothing can be delivered; then docket is started again with a file sink. The\n" +
				"rate counts from the first byte in the export to the last record that the sink has synced. The raw program\n" +
				"writes the same bytes to a fresh file and syncs as often as there were batches. What is read is in the page cache.\n" +
				"Then sinks that compress get the same backlog.",
			Rows: []row{
				{Key: "rate", What: "delivered and synced", Unit: "records/s"},
				{Key: "perBatch", What: "records in a batch"},
				{Key: "appended", What: "raw append + fdatasync", Unit: "records/s"},
				{Key: "ratio", What: "docket / raw append", Ratio: &ratio{"rate", "appended"}, Target: &report.Target{AtLeast: 0.5}},
				{Key: "restart", What: "from the start of docket to the last record", Unit: "s"},
				{Key: "zstd", What: "delivered and synced, compress: zstd", Unit: "records/s"},
				{Key: "gzip", What: "delivered and synced, compress: gzip", Unit: "records/s"},
			},
			Charts: []drawn{{Keys: []string{"rate", "zstd", "gzip", "appended"}, Own: []string{"rate", "zstd", "gzip"}}},
			run:    (*lab).backlog,
		},
		{
			Name:  "http",
			Title: "Delivery of a backlog over HTTP",
			About: "docket posts a backlog, as ndjson, to a receiver in another process on loopback that reads the\n" +
				"body and answers 200. The plain program is a loop around a net/http client, in a process of its own, that posts one ready\n" +
				"body of the size that docket's had again and again and reads the answer: one request at a time on one connection, or\n" +
				"four loops on four, beside maxInFlight: 4. The clock is the receiver's, from the end of the first body to the end\n" +
				"of the last. All take turns of a backlog each, three times.",
			Rows: []row{
				{Key: "rate", What: "delivered, one request at a time", Unit: "records/s"},
				{Key: "perRequest", What: "records in a request"},
				{Key: "plain", What: "plain loop", Unit: "records/s"},
				{Key: "ratio", What: "docket / plain loop", Ratio: &ratio{"rate", "plain"}},
				{Key: "cpu", What: "processor time of docket for a million records", Unit: "s"},
				{Key: "plainCPU", What: "processor time of the plain loop for a million records", Unit: "s"},
				{Key: "receiver", What: "processor time of the receiver for a million records", Unit: "s"},
				{Key: "many", What: "delivered, maxInFlight: 4", Unit: "records/s"},
				{Key: "plainMany", What: "four plain loops", Unit: "records/s"},
				{Key: "manyRatio", What: "docket with maxInFlight: 4 / four plain loops", Ratio: &ratio{"many", "plainMany"}},
			},
			Charts: []drawn{{Keys: []string{"rate", "plain", "many", "plainMany"}, Own: []string{"rate", "many"}}},
			run:    (*lab).http,
		},
		{
			Name:  "kafka",
			Title: "Delivery of a backlog to Kafka",
			About: "docket writes a backlog to a topic of three partitions with the default options: no key, no\n" +
				"compression, acks=all. The broker is kfake in another process, which checks every request and forgets it. The plain\n" +
				"program, in a process of its own, has a goroutine for each partition that calls Client.Produce of kafka-go again and\n" +
				"again: acks=all, one request at a time, as many records in each as docket had on average, the same values and headers in\n" +
				"every call, all made before the clock starts; metadata live a minute, as docket's. The headers are as many and as long as\n" +
				"docket's, or there are none. The clock is the broker's, from its first request to its last. All take turns of a\n" +
				"backlog each, three times.",
			Rows: []row{
				{Key: "rate", What: "delivered", Unit: "records/s"},
				{Key: "perRequest", What: "records in a request"},
				{Key: "plain", What: "plain loop", Unit: "records/s"},
				{Key: "slower", What: "time of docket / time of the plain loop", Ratio: &ratio{"plain", "rate"}, Target: &report.Target{AtMost: 1.2}},
				{Key: "bare", What: "plain loop without headers", Unit: "records/s"},
				{Key: "bareSlower", What: "time of docket / time of the plain loop without headers", Ratio: &ratio{"bare", "rate"}},
				{Key: "cpu", What: "processor time of docket for a million records", Unit: "s"},
				{Key: "plainCPU", What: "processor time of the plain loop for a million records", Unit: "s"},
				{Key: "bareCPU", What: "the same without headers", Unit: "s"},
				{Key: "broker", What: "processor time of the broker for a million records of docket", Unit: "s"},
			},
			Charts: []drawn{{Keys: []string{"rate", "plain", "bare"}, Own: []string{"rate"}}},
			run:    (*lab).kafka,
		},
		{
			Name:  "isolation",
			Title: "A good sink beside three bad ones",
			About: "docket posts a backlog of twice as many records to a receiver as above: alone, and while it has three more sinks with the\n" +
				"same backlog. One is a black hole that takes the connection and reads nothing, one refuses connections, and one answers a\n" +
				"batch after 100 ms. The good receiver takes its first connection when docket has met with all three. The\n" +
				"two take turns, three times.",
			Rows: []row{
				{Key: "alone", What: "delivered by a sink alone", Unit: "records/s"},
				{Key: "beside", What: "delivered beside the three", Unit: "records/s"},
				{Key: "ratio", What: "beside the three / alone", Ratio: &ratio{"beside", "alone"}, Target: &report.Target{AtLeast: 0.9}},
				{Key: "aloneCPU", What: "processor time of docket for a million records, alone", Unit: "s"},
				{Key: "besideCPU", What: "the same beside the three", Unit: "s"},
				{Key: "slow", What: "delivered by the slow one meanwhile", Unit: "records"},
			},
			run: (*lab).isolation,
		},
		{
			Name:  "verify",
			Title: "Proof of an export",
			About: "`docket verify` reads an export of a million records in files of 64 MB, and `sha256sum` gets the names of the same files;\n" +
				"so does a loop around crypto/sha256 in this process, since there are builds of sha256sum that do not use what processors\n" +
				"have for it. Each three times in turn, the start of the process included; the files are in the page cache.",
			Rows: []row{
				{Key: "size", What: "size of the files", Unit: "MB"},
				{Key: "verify", What: "docket verify", Unit: "MB/s"},
				{Key: "sum", What: "sha256sum", Unit: "MB/s"},
				{Key: "ratio", What: "docket verify / sha256sum", Ratio: &ratio{"verify", "sum"}, Target: &report.Target{AtLeast: 0.7}},
				{Key: "plain", What: "plain loop around crypto/sha256", Unit: "MB/s"},
				{Key: "plainRatio", What: "docket verify / plain loop", Ratio: &ratio{"verify", "plain"}},
			},
			Charts: []drawn{{Keys: []string{"verify", "plain", "sum"}, Own: []string{"verify"}}},
			check:  (*lab).checkSum,
			run:    (*lab).verify,
		},
	}
}
