package main

const laterGo = "client/later.go"

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
}
