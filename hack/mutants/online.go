package main

// online has a defect for each promise of the tools that ask a docket at work.
var online = []mutant{
	{
		defect: "what was read of a file that is used again counts",
		file:   "exporter/queue/view.go",
		old:    "case f.s.gone:",
		new:    "case false:",
		tests:  []string{"TestSegmentsGoUnderAReader"},
	},
	{
		defect: "an answer that breaks off is taken for the whole",
		file:   "exporter/adminclient/queue.go",
		old:    "if r.From > from && errors.Is(err, io.ErrUnexpectedEOF) {\n\t\t\tcontinue",
		new:    "if r.From > from && errors.Is(err, io.ErrUnexpectedEOF) {\n\t\t\treturn nil",
		tests:  []string{"TestReadQueue"},
	},
	{
		defect: "any number of requests read the queue at a time",
		file:   "exporter/adminqueue.go",
		old:    "return &requestError{http.StatusServiceUnavailable,",
		new:    "_ = &requestError{http.StatusServiceUnavailable,",
		tests:  []string{"TestFewReadTheQueueAtATime"},
	},
	{
		defect: "a follower that is slow is not told that it has missed records",
		file:   "exporter/admintail.go",
		old:    "t.next < oldest {\n\t\tif err := t.missed(oldest - t.next)",
		new:    "t.next < oldest {\n\t\tif err := t.missed(0)",
		tests:  []string{"TestTailMissesRatherThanWaits"},
	},
	{
		defect: "the fates that a slow follower has yet to read have no bound",
		file:   "exporter/tails.go",
		old:    "size+f.list[first-1].size() <= tailWindow",
		new:    "true",
		tests:  []string{"TestFatesAreBounded"},
	},
	{
		defect: "a rejected record is followed as delivered",
		file:   "exporter/send.go",
		old:    "err == nil && !again && q.batch.followed",
		new:    "err == nil && again && q.batch.followed",
		tests:  []string{"TestTailOfASink"},
	},
	{
		defect: "a follower is told of a batch that was made before it came",
		file:   "exporter/deliver.go",
		old:    "if b.followed {",
		new:    "if d.tails.isFollowed() {",
		tests:  []string{"TestTailOfASinkBeginsWithAWholeBatch"},
	},
	{
		defect: "followers hold up the end of the endpoint",
		file:   "exporter/admintail.go",
		old:    "case <-fairconn.Ending(r):",
		new:    "case <-fairconn.Ending(new(http.Request)):",
		tests:  []string{"TestTailEndsWithTheEndpoint"},
	},
}
