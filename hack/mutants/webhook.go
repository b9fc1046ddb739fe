package main

const (
	laterGo    = "client/later.go"
	handlerGo  = "webhook/handler.go"
	exchangeGo = "webhook/exchange.go"
	presetGo   = "webhook/preset.go"
)

// ofWebhooks has a defect for each promise of the handler that records admission
// decisions, and of what the client does for it.
var ofWebhooks = []mutant{
	{
		defect: "Close does not wait for what was put off",
		file:   laterGo,
		old:    "if err = c.flushLater(ctx); err == nil {",
		new:    "if err == nil {",
		tests:  []string{"TestLaterRunsBeforeTheEnd"},
	},
	{
		defect: "Close gives up while the client waits to look for the exporter again",
		file:   "client/connect.go",
		old:    "closing := k.closing\n",
		new:    "closing := make(chan struct{})\n",
		tests:  []string{"TestCloseFindsAnExporterThatIsBack"},
	},
	{
		defect: "what has run counts as memory for ever",
		file:   laterGo,
		old:    "\tl.bytes -= done\n",
		new:    "",
		tests:  []string{"TestLaterIsBounded"},
	},
	{
		defect: "any number of functions can be put off",
		file:   laterGo,
		old:    "l.waiting.len() >= maxLater || ",
		new:    "l.waiting.len() > 2*maxLater || ",
		tests:  []string{"TestLaterNeverWaits"},
	},
	{
		defect: "what comes alone waits as well",
		file:   laterGo,
		old:    "laterPause-time.Since(c.later.rested)",
		new:    "laterPause",
		tests:  []string{"TestLaterRunsInRounds"},
	},
	{
		defect: "what comes together does not run together",
		file:   laterGo,
		old:    "laterPause-time.Since(c.later.rested)",
		new:    "0",
		tests:  []string{"TestLaterRunsInRounds"},
	},
	{
		defect: "a review that leaves no record is put off",
		file:   handlerGo,
		old:    "if h.passes(x) {",
		new:    "if false {",
		tests:  []string{"TestPassedReviewIsNotPutOff"},
	},
	{
		defect: "a warning that a preset would record passes",
		file:   handlerGo,
		old:    `(h.Preset == "" || x.decision == decision.Allow)`,
		new:    `(h.Preset == "" || x.decision != "")`,
		tests:  []string{"TestPassedReviewIsNotPutOff"},
	},
	{
		defect: "a small body in gzip is unpacked to any size",
		file:   exchangeGo,
		old:    "min(maxUnzipped, maxZipRatio*len(p.zip.text))",
		new:    "maxUnzipped",
		tests:  []string{"TestBytesPassUnchanged"},
	},
	{
		defect: "a preset takes names that no object can have",
		file:   presetGo,
		old:    "label == \"\" || label[0] == '-' || ",
		new:    "label == \"\" || ",
		tests:  []string{"TestPresets"},
	},
	{
		defect: "a review for which there is no room is not counted",
		file:   handlerGo,
		old:    "h.client.Lose(r.Decision, 1)",
		new:    "h.client.Lose(r.Decision, 0)",
		tests:  []string{"TestBatchNeverWaits"},
	},
	{
		defect: "a review for which there is no room leaves no gap",
		file:   handlerGo,
		old:    "\t\th.client.NextSequence() // a gap\n",
		new:    "",
		tests:  []string{"TestBatchNeverWaits"},
	},
	{
		defect: "a record is made while a piece of its request is taken",
		file:   handlerGo,
		old:    "if x.mu.TryLock() { // else",
		new:    "if true { // else",
		tests:  []string{"TestHandlerReturnsWhileAPieceIsTaken"},
	},
	{
		defect: "the answer leaves though its record is not durable",
		file:   handlerGo,
		old:    "\t\ta.refuse()\n",
		new:    "\t\ta.release()\n",
		tests:  []string{"TestExporterThatHangs"},
	},
	{
		defect: "a fault in the record of a review ends the program",
		file:   handlerGo,
		old:    "\tp := recover()\n\tif p == nil {",
		new:    "\tp := any(nil)\n\tif p == nil {",
		tests:  []string{"TestFaults"},
	},
	{
		defect: "the header of an answer that is held leaves",
		file:   "webhook/held.go",
		old:    "header: way.Header().Clone(),",
		new:    "header: way.Header(),",
		tests:  []string{"TestExporterThatHangs"},
	},
	{
		defect: "an answer is held whatever its size",
		file:   "webhook/held.go",
		old:    "len(a.body)+len(p) <= maxHeld && a.grow",
		new:    "a.grow",
		tests:  []string{"TestAnswerThatIsTooLargeToHold"},
	},
	{
		defect: "a verdict that reaches nobody counts",
		file:   exchangeGo,
		old:    "case ctx.Err() != nil && !(completed && whole):",
		new:    "case ctx.Err() != nil && completed && whole:",
		tests:  []string{"TestStreamsThatAreReset"},
	},
	{
		defect: "a part of an answer counts as the whole",
		file:   exchangeGo,
		old:    "case x.cut || x.status != 0 && x.length > x.written:",
		new:    "case x.cut:",
		tests:  []string{"TestBytesPassUnchanged"},
	},
	{
		defect: "a verdict in an answer of status 503 counts",
		file:   "webhook/record.go",
		old:    "case x.status != 0 && !verdictStatus(x.status):",
		new:    "case x.status == http.StatusInternalServerError:",
		tests:  []string{"TestBytesPassUnchanged"},
	},
	{
		defect: "the memory of a review is counted for ever",
		file:   "webhook/record.go",
		old:    "\t\th.memory.grow(-part.kept)\n",
		new:    "",
		tests:  []string{"TestMemoryIsBounded"},
	},
	{
		defect: "the whole message is in every record of its violations",
		file:   presetGo,
		old:    "len(records) == 0 || len(raw)*len(violations) <= maxRaw",
		new:    "true",
		tests:  []string{"TestSplitIsBounded"},
	},
	{
		defect: "a bracket in a message begins another violation",
		file:   presetGo,
		old:    "if _, ok := gatekeeperViolation(text[i+1:]); ok {",
		new:    "if true {",
		tests:  []string{"TestPresets"},
	},
	{
		defect: "a review that is lost keeps the memory of others",
		file:   exchangeGo,
		old:    "\t\tx.h.memory.grow(-part.kept) // for others: this one has no record\n\t\t*part = half{unread: ",
		new:    "\t\t*part = half{kept: part.kept, unread: ",
		tests:  []string{"TestLostReviewGivesItsMemoryBack"},
	},
	{
		defect: "a panic of the handler ends with its record",
		file:   handlerGo,
		old:    "\t\t\th.handOver(x)\n\t\t}\n\t\tif p != nil {",
		new:    "\t\t\th.handOver(x)\n\t\t}\n\t\tif p == any(\"\") {",
		tests:  []string{"TestPanicsGoOn"},
	},
	{
		defect: "an answer that was flushed has another type when it was held",
		file:   "webhook/held.go",
		old:    "\tif a.flushed >= 0 {\n",
		new:    "\tif a.flushed > len(rest) {\n",
		tests:  []string{"TestHTTP2PassesUnchanged"},
	},
}
