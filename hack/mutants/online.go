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
}
