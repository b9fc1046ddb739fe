package main

// fromFiles has a defect for each promise of the sources that read files, and of the way
// back to those who send.
var fromFiles = []mutant{
	{
		defect: "a file of Gatekeeper is deleted though it has grown since it was read",
		file:   "sources/gatekeepersource/inventory/scan.go",
		old:    "info.inode != f.info.inode || info.size != f.info.size",
		new:    "info.inode != f.info.inode",
		tests:  []string{"TestOnlyWhatWasReadIsDeleted"},
	},
	{
		defect: "a log file is over as soon as its successor has contents",
		file:   "sources/tailsource/follow/held.go",
		old:    "p.over = g.replaced.Add(f.grace)",
		new:    "p.over = g.replaced",
		tests:  []string{"TestGrace"},
	},
	{
		defect: "a log that rotates twice while it is listed is read out of order",
		file:   "sources/tailsource/follow/follow.go",
		old:    "found = withoutYounger(found, info)",
		new:    "_ = withoutYounger",
		tests:  []string{"TestRotatedWhileItIsListed"},
	},
	{
		defect: "listings that differ are taken for the whole directory",
		file:   "sources/tailsource/follow/predecessors.go",
		old:    "moved = !calm",
		new:    "moved = false && calm",
		tests:  []string{"TestRotatedWhileItIsListed"},
	},
	{
		defect: "lines behind a beginning that is gone keep their numbers",
		file:   "sources/tailsource/read.go",
		old:    "\t\trd.renumber()\n",
		new:    "\t\t_ = rd.renumber\n",
		tests:  []string{"TestLinesBehindABeginningThatIsGone"},
	},
	{
		defect: "a line over the limit that a full queue has turned away is not named",
		file:   "sources/streamsource/conn.go",
		old:    "return c.untaken(c.session.SubmitTooLarge(c.ctx, lines[:c.lines.limit], length), 1)",
		new:    "return c.because(c.session.SubmitTooLarge(c.ctx, lines[:c.lines.limit], length))",
		tests:  []string{"TestTheLineThatAFullQueueHasNotTaken"},
	},
	{
		defect: "the first line that a full queue has not taken may be one that is known",
		file:   "sources/streamsource/conn.go",
		old:    "queueFull{max(c.answers.last()-uint64(count), c.acked) + 1}",
		new:    "queueFull{c.answers.last() - uint64(count) + 1}",
		tests:  []string{"TestTheLineThatAFullQueueHasNotTaken"},
	},
	{
		defect: "refusals that a dead connection has not written are waited for",
		file:   "sources/streamsource/answers.go",
		old:    "\ta.refused, a.unwritten = nil, 0\n\tclose(a.done)\n",
		new:    "\tclose(a.done)\n",
		tests:  []string{"TestRefusalsOfADeadConnectionAreForgotten"},
	},
	{
		defect: "refusals that come after a connection has died are waited for",
		file:   "sources/streamsource/answers.go",
		old:    "if !a.failed && !a.ended {",
		new:    "if !a.ended {",
		tests:  []string{"TestRefusalsOfADeadConnectionAreForgotten"},
	},
}
