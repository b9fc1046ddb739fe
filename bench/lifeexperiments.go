package main

import (
	"context"

	"github.com/docket-export/docket/bench/report"
)

// lifeExperiments measure docket when it starts, when everything happens at once, and
// when its destination is in trouble.
func lifeExperiments() []experiment {
	return []experiment{
		{
			Name:  "start500",
			Title: "Start over a backlog of 500 MB",
			About: "From the start of the stripped `docket` binary, as a process, until its socket takes a connection, and until an HTTP receiver\n" +
				"has the first batch, which is of 500 records. The queue was closed, or its process was killed in the middle of a load; the page\n" +
				"cache has its files. Five times in turn; the figures are medians, the memory is the greatest: up to the first batch, which the\n" +
				"receiver does not answer.",
			Rows: []row{
				{Key: "closed", What: "listening, after a close", Unit: "ms", Target: &report.Target{AtMost: 30}},
				{Key: "killed", What: "listening, after a kill", Unit: "ms", Target: &report.Target{AtMost: 30}},
				{Key: "closedFirst", What: "first batch at the sink, after a close", Unit: "ms", Target: &report.Target{AtMost: 50}},
				{Key: "killedFirst", What: "first batch at the sink, after a kill", Unit: "ms", Target: &report.Target{AtMost: 50}},
				{Key: "closedMemory", What: "resident memory until then, peak, after a close", Unit: "MB", Target: &report.Target{AtMost: 24}},
				{Key: "killedMemory", What: "resident memory until then, peak, after a kill", Unit: "MB", Target: &report.Target{AtMost: 24}},
			},
			Charts: []drawn{{Keys: []string{"closed", "closedFirst", "killed", "killedFirst"}, Own: []string{"closed", "closedFirst", "killed", "killedFirst"}}},
			run:    (*lab).starting,
		},
		{
			Name:  "load",
			Title: "Everything at once",
			About: "A docket over a backlog of 5 GB with three sinks: to files on the same disk, to an HTTP receiver and to a Kafka broker, each in\n" +
				"a process of its own, which take what comes. When all three deliver, eight producers with 1,024 records in flight each write\n" +
				"three times as many records as in the other measurements. The clock is that of the producers.",
			Rows: []row{
				{Key: "memory", What: "resident memory, peak", Unit: "MB", Target: &report.Target{AtMost: 64}},
				{Key: "rate", What: "acknowledged", Unit: "records/s"},
				{Key: "file", What: "delivered to files meanwhile", Unit: "records/s"},
				{Key: "http", What: "delivered over HTTP meanwhile", Unit: "records/s"},
				{Key: "kafka", What: "delivered to Kafka meanwhile", Unit: "records/s"},
				{Key: "cpu", What: "processor time of docket for a million records, taken in or delivered", Unit: "s"},
				{Key: "left", What: "left of the backlog for the quickest sink", Unit: "records", Target: &report.Target{AtLeast: 1}},
			},
			Charts: []drawn{{Keys: []string{"rate", "file", "http", "kafka"}, Own: []string{"rate", "file", "http", "kafka"}}},
			large:  true,
			check:  (*lab).checkRoom,
			run:    (*lab).fullLoad,
		},
		{
			Name:  "outage",
			Title: "A receiver that fails for 10 seconds, and later refuses one record",
			About: outageAbout,
			Rows:  outageRows(),
			run: func(l *lab, ctx context.Context) (map[string]float64, error) {
				return l.outage(ctx, shortOutage)
			},
		},
		{
			Name:  "outage60",
			Title: "A receiver that fails for a minute, and later refuses one record",
			About: outageAbout,
			Rows:  outageRows(),
			named: true,
			run: func(l *lab, ctx context.Context) (map[string]float64, error) {
				return l.outage(ctx, longOutage)
			},
		},
	}
}

const outageAbout = "A producer logs 2,000 records a second throughout. After a second the HTTP receiver answers 500 to everything, for as long as the\n" +
	"title says; then it takes what comes. Later there is one record for which it always answers 400 to the whole request. The\n" +
	"sink has retry.maxBackoff: 1s. Another, whose receiver fails at the same time, has the default of a minute: there the first\n" +
	"attempt after the outage comes as late as the last pause of the backoff was long. Lost is what was acknowledged and neither received nor set aside, when nothing is pending any\n" +
	"more. The receiver is this program, and knows every record by its number. `-only outage60` makes the outage last a minute."

func outageRows() []row {
	return []row{
		{Key: "logged", What: "logged and acknowledged", Unit: "records"},
		{Key: "received", What: "different records received", Unit: "records"},
		{Key: "lost", What: "lost", Unit: "records", Target: &report.Target{Zero: true}},
		{Key: "twice", What: "received again", Unit: "records"},
		{Key: "letters", What: "set aside as dead letters", Unit: "records"},
		{Key: "kept", What: "of these, the refused one", Unit: "records", Target: &report.Target{AtLeast: 1}},
		{Key: "innocent", What: "of these, any other", Unit: "records", Target: &report.Target{Zero: true}},
		{Key: "caughtUp", What: "from the end of the outage until all that was logged before it is received", Unit: "s", Target: &report.Target{AtMost: 2}},
		{Key: "caughtUpDefault", What: "the same with the default retry", Unit: "s"},
	}
}
