package main

import "slices"

// mutant is a defect that can be planted.
type mutant struct {
	defect string
	file   string   // from the root of the repository
	old    string   // text that the file has exactly once
	new    string   // what stands in its place
	tests  []string // those of the file's package that are there to catch it
	in     string   // their package, where it is another
	hangs  bool     // the tests notice by never ending
}

const (
	commitGo     = "exporter/queue/commit.go"
	cursorReadGo = "exporter/queue/cursorread.go"
	cursorfileGo = "exporter/queue/state/cursorfile.go"
	deliverGo    = "exporter/deliver.go"
	redriveGo    = "exporter/redrive.go"
	reloadGo     = "exporter/reload.go"
	lettersGo    = "exporter/letters.go"
	frameGo      = "exporter/queue/segment/frame.go"
	janitorGo    = "exporter/queue/janitor.go"
	ingestGo     = "exporter/ingest.go"
	verdictGo    = "exporter/verdict.go"
	quarantineGo = "exporter/queue/quarantine.go"
	readerGo     = "exporter/queue/segment/reader.go"
	recoverGo    = "exporter/queue/recover.go"
	proofGo      = "exporter/queue/segment/proof.go"
	producersGo  = "exporter/queue/state/producers.go"
	recoverlogGo = "exporter/queue/recoverlog.go"
	scanGo       = "exporter/queue/segment/scan.go"
	segmentGo    = "exporter/queue/segments.go"
	spaceGo      = "exporter/queue/space.go"
	poolGo       = "exporter/queue/pool.go"
	stateGo      = "exporter/queue/state/state.go"
	surveyGo     = "exporter/queue/state/survey.go"
)

// table has every defect.
var table = slices.Concat(core, trust, fromFiles, durable, ofWebhooks, ofReviews, ofServing, ofTap, online, ofConfig, ofWaits, ofReloads, ofQuery, ofKafka, ofEngine, reach)

// core has a defect for each promise of the queue and of the client, and of those
// parts around them that could break it.
var core = []mutant{
	// Writing.
	{
		defect: "a commit is acknowledged without a sync",
		file:   commitGo,
		old:    "if err := w.file.Sync(); err != nil {",
		new:    "if err := error(nil); err != nil {",
		tests:  []string{"TestNothingIsSettledBeforeItIsSynced"},
	},
	{
		defect: "a lone chunk that could not be written is forgotten",
		file:   "exporter/queue/append.go",
		old:    "\t\tq.committer.unwritten = batch\n",
		new:    "",
		tests:  []string{"TestAppendNowOnAFailingDisk"},
	},
	{
		defect: "a commit is acknowledged before its sync",
		file:   commitGo,
		old:    "\tif err := w.writeWholeBlocks(c, at); err != nil {",
		new: "\tfor i := range c.frames {\n\t\tif f := &c.frames[i]; f.settled != nil {\n\t\t\tf.settled()\n\t\t\tf.settled = nil\n\t\t}\n\t}\n" +
			"\tif err := w.writeWholeBlocks(c, at); err != nil {",
		tests: []string{"TestNothingIsSettledBeforeItIsSynced"},
	},
	{
		defect: "a record is shown to sinks before its sync",
		file:   commitGo,
		old:    "\tif err := w.file.Sync(); err != nil {",
		new:    "\tq.durable.Store(seq - 1)\n\tif err := w.file.Sync(); err != nil {",
		tests:  []string{"TestNothingIsSettledBeforeItIsSynced"},
	},
	{
		defect: "an error of a write is ignored",
		file:   commitGo,
		old:    "if err := w.writeWholeBlocks(c, at); err != nil {",
		new:    "if err := w.writeWholeBlocks(c, at); false {",
		tests:  []string{"TestFailedCommitIsWrittenAgainElsewhere"},
	},
	{
		defect: "an error of a sync is ignored",
		file:   commitGo,
		old:    "if err := w.file.Sync(); err != nil {",
		new:    "if err := w.file.Sync(); false {",
		tests:  []string{"TestFailedCommitIsWrittenAgainElsewhere"},
	},
	{
		defect: "a failed sync is tried again on the same file",
		file:   commitGo,
		old:    "if err := w.file.Sync(); err != nil {",
		new:    "if err := w.file.Sync(); err != nil && w.file.Sync() != nil {",
		tests:  []string{"TestFailedSegmentIsNeverSyncedAgain"},
	},
	{
		defect: "a failed segment is written on",
		file:   commitGo,
		old:    "\tq.closeActive(err)\n",
		new:    "",
		tests:  []string{"TestFailedSegmentIsNeverSyncedAgain"},
	},
	{
		defect: "records are shown before the end of their segment is",
		file:   commitGo,
		old:    "\tw.active.end.Add(int64(len(c.buf)))\n\tw.active.newest.Store(newest)\n\tq.durable.Store(last)\n\tq.mu.Unlock()\n",
		new:    "\tq.durable.Store(last)\n\tq.mu.Unlock()\n\ttime.Sleep(time.Millisecond)\n\tw.active.end.Add(int64(len(c.buf)))\n",
		tests:  []string{"TestCursorThatAsksAllTheTime"},
	},

	// Segments.
	{
		defect: "a segment is used before its name is synced",
		file:   segmentGo,
		old:    "\t\terr = fsys.SyncDir(dir)\n",
		new:    "",
		tests:  []string{"TestFailedCommitIsWrittenAgainElsewhere"},
	},
	{
		defect: "an epoch is used twice",
		file:   commitGo,
		old:    "w.epoch++",
		new:    "w.epoch = max(w.epoch, 1)",
		tests:  []string{"TestModel", "TestRecordsComeBackInOrderAfterReopen"},
	},
	{
		defect: "a frame of another epoch is taken for one of this segment",
		file:   readerGo,
		old:    "if f.Epoch != r.epoch {",
		new:    "if false {",
		tests:  []string{"TestOldFramesBehindTheEndAreNotRead"},
	},
	{
		defect: "a segment goes before the cursors that release it are durable",
		file:   janitorGo,
		old:    " && q.isDone(s, h.written)",
		new:    "",
		tests:  []string{"TestSegmentsStayUntilWhatReleasesThemIsDurable"},
	},
	{
		defect: "a segment goes before the checkpoint that covers it is durable",
		file:   janitorGo,
		old:    "s.Epoch <= h.covered && q.isDone(s, h.written)",
		new:    "q.isDone(s, h.written)",
		tests:  []string{"TestSegmentsStayUntilWhatReleasesThemIsDurable"},
	},
	{
		defect: "a spare is written to before it is synced that it is none",
		file:   poolGo,
		old:    "if err = s.fsys.SyncDir(s.dir); err != nil {",
		new:    "if err != nil {",
		tests:  []string{"TestSpareIsWrittenToUnderItsNewName"},
	},
	{
		defect: "a file is used again while a cursor reads it",
		file:   janitorGo,
		old:    "!s.failed && s.readers == 0 &&",
		new:    "!s.failed &&",
		tests:  []string{"TestFileThatIsReadIsNotUsedAgain"},
	},
	{
		defect: "the file of a failed segment is used again",
		file:   janitorGo,
		old:    "!s.failed && s.readers == 0 &&",
		new:    "s.readers == 0 &&",
		tests:  []string{"TestFailedFileIsNotUsedAgain"},
	},
	{
		defect: "an epoch that a spare has seen is given out again",
		file:   recoverGo,
		old:    "\t\tq.committer.epoch = max(q.committer.epoch, spare.Epoch)\n",
		new:    "",
		tests:  []string{"TestEpochsOfSparesAreNotGivenOutAgain"},
	},
	{
		defect: "a file that was being begun is left for a spare",
		file:   surveyGo,
		old:    "s.Begun = append(s.Begun, name)",
		new:    "s.Spares = append(s.Spares, Spare{Name: name})",
		tests:  []string{"TestFilesOfUnknownEpochsAreNotUsedAgain"},
	},
	{
		defect: "what a crash leaves of a new file is taken for a spare",
		file:   recoverGo,
		old:    "if spare.Err != nil || spare.Size",
		new:    "if spare.Size",
		tests:  []string{"TestFilesOfUnknownEpochsAreNotUsedAgain"},
	},
	{
		defect: "a file that failed to be prepared is synced again",
		file:   poolGo,
		old:    "\tif err == nil {\n\t\terr = f.Sync()\n\t}\n\tif err != nil {\n\t\t// A file",
		new:    "\tif err == nil && f.Sync() != nil {\n\t\terr = f.Sync()\n\t}\n\tif err != nil {\n\t\t// A file",
		tests:  []string{"TestFailedPreparationIsNotGoneOnWith"},
	},
	{
		defect: "what is found in the cursors file is trusted without a sync",
		file:   cursorfileGo,
		old:    "if c.found == nil {",
		new:    "if true {",
		tests:  []string{"TestOneSlotIsAlwaysWhole"},
	},

	{
		defect: "a segment that was closed early is cut too short",
		file:   janitorGo,
		old:    "\t\tsize := alignBlock(s.end.Load())\n",
		new:    "\t\tsize := alignBlock(s.end.Load()) - blockBytes\n",
		tests:  []string{"TestFailedCommitIsWrittenAgainElsewhere"},
	},
	{
		defect: "a segment does not say where the one before it ends",
		file:   commitGo,
		old:    "header.PrevEpoch, header.PrevEnd, header.PrevNewest = w.last.Epoch, w.last.end.Load(), w.last.newest.Load()",
		new:    "header.PrevEpoch, header.PrevEnd = w.last.Epoch, w.last.size.Load()",
		tests:  []string{"TestRefusalInAFailedCommitCountsOnce"},
	},

	// Space.
	{
		defect: "dropped records are not counted",
		file:   spaceGo,
		old:    "\tif a.Next < until {\n\t\ta.DropForRoom(until - a.Next)",
		new:    "\tif a.Next < until {",
		tests:  []string{"TestFilesStayWithinMaxBytes"},
	},
	{
		defect: "room that is kept for counts is said to be free",
		file:   spaceGo,
		old:    "max(0, q.space.available(going)-keptForCounts)",
		new:    "max(0, q.space.available(going))",
		tests:  []string{"TestFreeIsWhatIsTaken"},
	},
	{
		defect: "what is retained is not said to be free",
		file:   spaceGo,
		old:    "		if q.isDone(s, accounts) {\n			going += s.size.Load()\n		}\n	}\n	files",
		new:    "		_, _ = s, accounts\n	}\n	files",
		tests:  []string{"TestFreeIsWhatIsTaken"},
	},
	{
		defect: "a sink that holds a dropped batch has no lag",
		file:   spaceGo,
		old:    "c.gathering.received = s.newest.Load()",
		new:    "c.gathering.received = 0",
		tests:  []string{"TestOldestPendingBehindADrop"},
	},
	{
		defect: "more files are made than MaxBytes allows",
		file:   spaceGo,
		old:    "	keptForCounts = 2",
		new:    "	keptForCounts = 0",
		tests:  []string{"TestCountingWhatIsRefusedStaysWithinMaxBytes", "TestFullQueuePreparesNothing"},
	},
	{
		defect: "a file counts only once it has its name",
		file:   spaceGo,
		old:    " - s.beginning - s.leaving",
		new:    "",
		tests:  []string{"TestSinkThatKeepsUpStaysWithinMaxBytes", "TestFullQueuePreparesNothing", "TestCountingWhatIsRefusedStaysWithinMaxBytes"},
	},
	{
		defect: "the reserve of an earlier docket is kept on a full disk",
		file:   janitorGo,
		old:    "return h.dir.Join(state.ReserveFile).Remove() == nil",
		new:    "return false",
		tests:  []string{"TestReserveFromBeforeAStop"},
	},
	{
		defect: "the space that must stay free is taken",
		file:   poolGo,
		old:    "minFree > 0 && free-size < minFree",
		new:    "minFree > 0 && free < minFree",
		tests:  []string{"TestMinFreeBytesStayFree"},
	},

	// Frames.
	{
		defect: "the checksum of the records is not looked at",
		file:   frameGo,
		old:    "if crc32.Checksum(b[f.HeaderLen:f.HeaderLen+f.PayloadLen], castagnoli) != f.payloadCRC {",
		new:    "if false {",
		tests:  []string{"TestDamage"},
	},
	{
		defect: "the checksum of a header is not looked at",
		file:   frameGo,
		old:    "if le.Uint32(h[atHeaderCRC:]) != frameCRC(h) {",
		new:    "if false {",
		tests:  []string{"TestDamage"},
	},
	{
		defect: "a reader goes beyond what is durable in its segment",
		file:   readerGo,
		old:    "room := min(int64(cap(r.buf)-len(r.buf)), limit-from)",
		new:    "room := int64(cap(r.buf) - len(r.buf))",
		tests:  []string{"TestCursorThatAsksAllTheTime"},
	},

	// Recovery.
	{
		defect: "a torn tail is not cut",
		file:   scanGo,
		old:    "case r.Off > hole && s.IsLast() && !s.proof.isOfHole(*r, next, hole, s.End):",
		new:    "case r.Off < hole:",
		tests:  []string{"TestTornCommitOfSeveralFramesIsCutWhole"},
	},
	{
		defect: "damage is taken for a torn tail",
		file:   proofGo,
		old:    "if f.Durable > hole || f.Durable <= p.commit || p.wasDurable(&f) {",
		new:    "if f.Durable <= p.commit || p.wasDurable(&f) {",
		tests:  []string{"TestDamage"},
	},
	{
		defect: "the unproven end of the log is trusted",
		file:   scanGo,
		old:    "return !s.IsLast() || off+int64(f.Size()) <= s.Counted || s.proof.holds(off, f)",
		new:    "return true",
		tests:  []string{"TestUnprovenTailIsWrittenAgain"},
	},
	{
		defect: "the tail has a frame that was synced",
		file:   scanGo,
		old:    "s.held[s.waiting[0].at:]",
		new:    "s.held",
		tests:  []string{"TestTailBeginsWithItsFirstFrame"},
		in:     "exporter/queue/segment",
	},
	{
		defect: "the end of the log gets other seqs than it had",
		file:   recoverlogGo,
		old:    "\t\tnext = r.tail\n",
		new:    "\t\tnext = r.checkpoint.NextSeq + 1\n",
		tests:  []string{"TestDamageBeforeTheTailKeepsTheTailsSeq"},
	},
	{
		defect: "records missing in a hole of the log are not told",
		file:   recoverlogGo,
		old:    "\t\t\tq.reportLost(it.Lost)\n\t\tcase segment.IsGap:\n",
		new:    "\t\tcase segment.IsGap:\n",
		tests:  []string{"TestVerdictsAreThoseOfTheTwoReaders"},
	},
	{
		defect: "records missing before a segment or at the end of the log are not told",
		file:   recoverlogGo,
		old:    "\t\tcase segment.IsGap:\n\t\t\tq.reportLost(it.Lost)\n",
		new:    "\t\tcase segment.IsGap:\n",
		tests:  []string{"TestTailWithoutRecordsAndALostEnd"},
	},
	{
		defect: "the end of the log is trusted by its headers",
		file:   scanGo,
		old:    "\ts.reader.MoveTo(s.Off)\n",
		new:    "\ts.reader.MoveTo(max(s.Off, s.End))\n",
		tests:  []string{"TestUnprovenTailIsWrittenAgain"},
	},
	{
		defect: "a cut takes the proof of what stands before it",
		file:   recoverlogGo,
		old:    "if it.HasProof {",
		new:    "if false {",
		tests:  []string{"TestCutLeavesTheProof"},
	},
	{
		defect: "what is left of a torn commit is kept",
		file:   scanGo,
		old:    "endsIn := s.IsLast() && s.proof",
		new:    "endsIn := false && s.proof",
		tests:  []string{"TestHoleOverTheEndOfWhatWasSynced"},
	},
	{
		defect: "a seq is given again behind a second hole",
		file:   scanGo,
		old:    "\t\ts.proof.proven = max(s.proof.proven, hole)\n",
		new:    "",
		tests:  []string{"TestDamageInFrontOfATornCommit"},
	},
	{
		defect: "a hole where a sink has passed a record is a torn tail",
		file:   proofGo,
		old:    "if next < p.knownDurable {",
		new:    "if false {",
		tests:  []string{"TestDamageOfARecordThatWasPassed"},
	},
	{
		defect: "a search passes over what is yet to be written",
		file:   readerGo,
		old:    "r.MoveTo(min(from&^(align-1), limit))",
		new:    "r.MoveTo(from &^ (align - 1))",
		tests:  []string{"TestDamageAtTheEndOfTheSegmentInUse"},
	},
	{
		defect: "frames behind what was never written are not found",
		file:   readerGo,
		old:    "r.MoveTo(min(from&^(align-1), limit))",
		new:    "r.MoveTo(limit)",
		tests:  []string{"TestHoleInTheFile"},
	},
	{
		defect: "records that damage has taken are counted as delivered",
		file:   cursorReadGo,
		old:    "\tc.holes = append(c.holes, r)\n",
		new:    "",
		tests:  []string{"TestMissingSegmentIsCountedExactly"},
	},
	{
		defect: "damaged bytes are passed without a copy",
		file:   quarantineGo,
		old:    "return true, path.Replace(content[:n])",
		new:    "_ = n\n\treturn true, nil",
		tests:  []string{"TestDamage"},
	},
	{
		defect: "a seq is given to a second record",
		file:   surveyGo,
		old:    "s.KnownDurable = max(s.KnownDurable, a.Next, a.ReplayTo)",
		new:    "_ = a",
		tests:  []string{"TestSeqIsNotReusedWhenOnlyTheCursorsAreLeft"},
	},

	// Cursors and positions.
	{
		defect: "the cursors file is not synced",
		file:   cursorfileGo,
		old:    "if err := c.File.Sync(); err != nil {",
		new:    "if err := error(nil); err != nil {",
		tests:  []string{"TestSegmentsStayUntilWhatReleasesThemIsDurable"},
	},
	{
		defect: "the cursors file is written to one slot",
		file:   cursorfileGo,
		old:    "offset = slotSize - offset",
		new:    "offset = 0",
		tests:  []string{"TestOlderSlotServesWhenTheNewerIsTorn"},
	},
	{
		defect: "a refused line is counted twice",
		file:   stateGo,
		old:    "t.Refused[string(reason)] += n",
		new:    "t.Refused[string(reason)] += 2 * n",
		tests:  []string{"TestRefusalsSurviveALostCheckpoint"},
	},
	{
		defect: "a reported loss is not in the checkpoint",
		file:   stateGo,
		old:    "`json:\"lost\"`\n}\n\n// New returns",
		new:    "`json:\"-\"`\n}\n\n// SeqRange",
		tests:  []string{"TestLossesSurviveAKill"},
	},
	{
		defect: "producers are remembered without a bound",
		file:   producersGo,
		old:    "for more := true; more && t.Peers > all; {",
		new:    "for more := false; more && t.Peers > all; {",
		tests:  []string{"TestProducersOfAllPeersAreBounded"},
		in:     "exporter/queue/state",
	},
	{
		defect: "a position goes back when chunks of a producer come again",
		file:   producersGo,
		old:    "p.Highest = max(p.Highest, f.Position)",
		new:    "p.Highest = f.Position",
		tests:  []string{"TestRepeatedLinesDoNotMoveAPositionBack"},
	},
	{
		defect: "a position is told while the end of the log is undecided",
		file:   "exporter/queue/queue.go",
		old:    "\tselect {\n\tcase <-q.recovered:\n\tcase <-q.stop:",
		new:    "\tselect {\n\tdefault:\n\tcase <-q.stop:",
		tests:  []string{"TestPositionWaitsForTheTail"},
	},

	// Around the queue.
	{
		defect: "a cursor moves before its destination has answered",
		file:   deliverGo,
		old:    "\tif !b.isEmpty() {\n\t\tif d.slots.acquire(ctx) != nil {\n",
		new:    "\td.settle(b)\n\tif !b.isEmpty() {\n\t\tif d.slots.acquire(ctx) != nil {\n",
		tests:  []string{"TestFailureKinds"},
	},
	{
		defect: "a sink that is down for long is tried without a pause",
		file:   deliverGo,
		old:    "backoff.WithMaxElapsedTime(0))",
		new:    "backoff.WithMaxElapsedTime(15*time.Minute))",
		tests:  []string{"TestPausesStayLong"},
	},
	{
		defect: "a line that was sent again is stored again",
		file:   verdictGo,
		old:    "return number, s.received.Has(number)",
		new:    "return number, false",
		tests:  []string{"TestResendIsRecognisedAcrossARestart"},
	},
	{
		defect: "a full queue moves the position of a producer past lines it refuses",
		file:   ingestGo,
		old:    "if s.opening.Producer != \"\" {\n\t\t\treturn s.turnAway",
		new:    "if false {\n\t\t\treturn s.turnAway",
		tests:  []string{"TestFullQueueDecidesNothing"},
	},
	{
		defect: "a loss is counted although its record is refused",
		file:   verdictGo,
		old:    "\tv.lost = losses{}\n",
		new:    "",
		tests:  []string{"TestLossRecordRefusedByAFullQueueIsNotCounted"},
	},
	{
		defect: "an export is accepted without a sync",
		file:   "sinks/filesink/store.go",
		old:    "if err := s.active.Sync(); err != nil {\n\t\ts.broken = true",
		new:    "if err := error(nil); err != nil {\n\t\ts.broken = true",
		tests:  []string{"TestCrash"},
	},

	// The client.
	{
		defect: "a line that is refused because the queue is full counts as handled",
		file:   "client/connect.go",
		old:    " || r.Reason == stream.QueueFull {",
		new:    " {",
		tests:  []string{"TestQueueFullIsTriedAgain"},
	},
	{
		defect: "a client comes back to a full exporter without a pause",
		file:   "client/connect.go",
		old:    "if k.first() > first || time.Since",
		new:    "if k.first() >= first || time.Since",
		tests:  []string{"TestQueueFullIsTriedAgain"},
	},
	{
		defect: "a loss record that is refused is forgotten",
		file:   "client/connect.go",
		old:    "\t\t\tk.losses.untold.add(l.report)\n",
		new:    "",
		tests:  []string{"TestRefusedLossRecord"},
	},
	{
		defect: "a record that is dropped for another is not counted",
		file:   "client/link.go",
		old:    "\tk.loseLocked(l.kind, lostFull, 1)\n\tk.finish(l, ErrFull)",
		new:    "\tk.finish(l, ErrFull)",
		tests:  []string{"TestShedsByPriority"},
	},
	{
		defect: "lines are sent under numbers that a spill file may give to others",
		file:   "client/write.go",
		old:    "if l == nil && k.resumed == 0 {",
		new:    "if l == nil {",
		tests:  []string{"TestSpillFileThatComesBack"},
	},
	{
		defect: "a record that somebody waits for is dropped",
		file:   "client/outbox.go",
		old:    "if l.keep {",
		new:    "if false {",
		tests:  []string{"TestLogIsNotShed"},
	},
	{
		defect: "a deny yields to an allow that waits for room",
		file:   "client/room.go",
		old:    "k.waiting[:l.rank+1]",
		new:    "k.waiting",
		tests:  []string{"TestDenyDoesNotYieldToALargeAllow"},
	},
	{
		defect: "a line that is let in as its time ends is said to be lost",
		file:   "client/room.go",
		old:    "\tif w.line == nil { // it was admitted",
		new:    "\tif false { // it was admitted",
		tests:  []string{"TestLetInAtTheLastMoment"},
	},
	{
		defect: "a waiter that gives up leaves those behind it waiting",
		file:   "client/room.go",
		old:    "\tk.admit() // the next may be smaller\n",
		new:    "",
		tests:  []string{"TestWaiterThatGivesUpLetsTheNextIn"},
	},
	{
		defect: "a refusal of a dead connection counts on the next",
		file:   "client/connect.go",
		old:    "\t\tk.box.flight.at(i).refused = nil\n",
		new:    "\t\t_ = i\n",
		tests:  []string{"TestRefusalOfADeadConnection"},
	},
	{
		defect: "a spill file is removed before all of it is stored",
		file:   "client/spill.go",
		old:    "if s.last > 0 && n >= s.last {",
		new:    "if s.last > 0 {",
		tests:  []string{"TestSpillFileStaysUntilAllIsStored"},
	},
	{
		defect: "the lines of a spill file get new numbers",
		file:   "client/link.go",
		old:    "\tk.box.first = r.next\n",
		new:    "",
		tests:  []string{"TestSpilledLinesKeepTheirNumbers"},
	},

	// Delivery.
	{
		defect: "a rejected record is passed over without a letter",
		file:   "exporter/send.go",
		old:    "\terr = q.letters.add(items)\n",
		new:    "\terr = nil\n",
		tests:  []string{"TestRejectedRecordsAreSetAsideAlone"},
	},
	{
		defect: "the neighbours of a rejected record are not sent",
		file:   "exporter/send.go",
		old:    "\t\tb = d.without(b, f.Items)\n",
		new:    "\t\tb = sinks.Batch{}\n",
		tests:  []string{"TestRejectedRecordsAreSetAsideAlone"},
	},
	{
		defect: "what follows a rejected record goes before it is taken",
		file:   "exporter/send.go",
		old:    "first.Items, second.Items = b",
		new:    "second.Items, first.Items = b",
		tests:  []string{"TestOnRejectBlock"},
	},
	{
		defect: "a batch is settled although one before it is not",
		file:   deliverGo,
		old:    "len(d.underWay) > 0 && d.underWay[0].decided {",
		new:    "len(d.underWay) > 0 {",
		tests:  []string{"TestStopLeavesNoHole"},
	},
	{
		defect: "a filtered record counts as delivered",
		file:   deliverGo,
		old:    "queue.Outcome{Filtered: b.filtered, DeadLettered: b.setAside}",
		new:    "queue.Outcome{}",
		tests:  []string{"TestFilteredIsNotDelivered"},
	},
	{
		defect: "a gap of one record is not told of",
		file:   "sinks/filesink/portion.go",
		old:    "\tif from > w.next {\n",
		new:    "\tif from > w.next+1 {\n",
		tests:  []string{"TestGaps"},
	},
	{
		defect: "a batch overtakes one that waits for room in the dead letters",
		file:   "exporter/send.go",
		old:    "\tcase q.slots.lent <- struct{}{}: //",
		new:    "\tcase <-q.slots.held:\n\t\tq.slots.held <- struct{}{} //",
		tests:  []string{"TestRedriveMakesRoomForABatchThatWaits"},
	},
	{
		defect: "a batch under way keeps bytes that the queue lends again",
		file:   "exporter/packer.go",
		old:    "\t\tb.lines = append(b.lines, r.Data...)\n",
		new:    "\t\treturn r.Data\n",
		tests:  []string{"TestOverlappingSendsSettleInOrder"},
	},
	{
		defect: "a record that the filter cannot judge is kept back",
		file:   "exporter/selection.go",
		old:    "return !s.withhold, err",
		new:    "return false, err",
		tests:  []string{"TestUnjudgeableRecords"},
	},
	{
		defect: "a sink is not told of a record that its filter left out",
		file:   "exporter/packer.go",
		old:    "\t\t\t\tb.addGap(r.Seq, r.Seq, sinks.Filtered)\n",
		new:    "",
		tests:  []string{"TestGaps"},
	},
	{
		defect: "a redriven record is not marked as late",
		file:   redriveGo,
		old:    ", Late: sinks.Redriven,",
		new:    ",",
		tests:  []string{"TestRedrive"},
	},
	{
		defect: "a letter that was purged on its way counts as delivered",
		file:   lettersGo,
		old:    "return !s.Has(seq) })",
		new:    "return false })",
		tests:  []string{"TestPurgeDuringARedriveDeliversTheOthersOnce"},
	},
	{
		defect: "what was accepted of a redrive comes again after a stop",
		file:   redriveGo,
		old:    "context.WithoutCancel(ctx)",
		new:    "ctx",
		tests:  []string{"TestStopBeforeTheAccountOfARedriveIsDurable"},
	},
	{
		defect: "letters that cannot be removed are sent again",
		file:   redriveGo,
		old:    "\tif err := r.remove(ctx); err != nil {\n\t\treturn false, err\n\t}\n",
		new:    "",
		tests:  []string{"TestLettersThatCannotBeRemovedAreNotSentAgain"},
	},
	{
		defect: "letters are lost in a sink that knows records by their numbers",
		file:   redriveGo,
		old:    "if r.cfg.ordered() {",
		new:    "if false {",
		tests:  []string{"TestLettersAreNotRedrivenToAnExport"},
	},
	{
		defect: "a letter is sent again before its own batch is settled",
		file:   lettersGo,
		old:    "s.NextRedriving(l.account.Account().Next, ",
		new:    "s.NextRedriving(1<<63, ",
		tests:  []string{"TestRedriveBehindASlowBatchDropsNothing"},
	},
	{
		defect: "dead letters are counted wrong from the far end",
		file:   "exporter/deadletter/index.go",
		old:    "x.redriving - count(x.entries[:i]) - count(x.entries[j:])",
		new:    "x.redriving - count(x.entries[:i])",
		tests:  []string{"TestModel"},
	},
	{
		defect: "a replayed record keeps its old letter",
		file:   deliverGo,
		old:    "\t\t_ = forget() // which has told\n",
		new:    "",
		tests:  []string{"TestPendingRecordHasNoLetter"},
	},
	{
		defect: "a sink in transactions follows a position of before a replay",
		file:   "exporter/resume.go",
		old:    "case !found || at.Replayed < a.Replayed:",
		new:    "case !found:",
		tests:  []string{"TestDecide"},
	},
	{
		defect: "the destination's records are not compared with the queue's",
		file:   "exporter/resume.go",
		old:    "case read && !received.Equal(at.Received):",
		new:    "case read && received.IsZero():",
		tests:  []string{"TestDecide"},
	},
	{
		defect: "a destination beyond the end of the queue is followed",
		file:   "exporter/resume.go",
		old:    "case at.Next > last+1:",
		new:    "case false && last > 0:",
		tests:  []string{"TestDecide"},
	},
	{
		defect: "a sink begins a transaction before its account is durable",
		file:   "exporter/resume.go",
		old:    "if err := d.cursor.Save(soon); err != nil {",
		new:    "if err := error(nil); err != nil {\n\t\t_ = soon",
		tests:  []string{"TestAccountIsDurableBeforeItIsClaimed"},
	},
	{
		defect: "an export beyond the end of the queue gets records",
		file:   "exporter/resume.go",
		old:    "if newest.Through > last {",
		new:    "if newest.Through < last {",
		tests:  []string{"TestRecognized"},
	},
	{
		defect: "an export with another record of that number gets records",
		file:   "exporter/resume.go",
		old:    "read && !received.Equal(newest.Received)",
		new:    "read && received.IsZero()",
		tests:  []string{"TestRecognized"},
	},
	{
		defect: "an export forgets its newest record with the file that it finishes",
		file:   "sinks/filesink/position.go",
		old:    "file{lastRecord: p.lastRecord, lastReceived: p.lastReceived}",
		new:    "file{}",
		tests:  []string{"TestNewest"},
	},
	{
		defect: "an older copy of an export is taken for the export",
		file:   "exporter/resume.go",
		old:    "lacks > a.Dropped+a.Corrupt",
		new:    "lacks > a.Next",
		tests:  []string{"TestRecognizedBehind"},
	},
	{
		defect: "a new export accounts for records that another one has",
		file:   "exporter/packer.go",
		old:    "k.told == 0 && hasDelivered(k.before) || ",
		new:    "",
		tests:  []string{"TestGaps"},
	},
	{
		defect: "records are decided before the destination has said what it has",
		file:   deliverGo,
		old:    "case (d.transacts || d.packer.gaps) && err == nil:",
		new:    "case false:",
		tests:  []string{"TestRecordsWaitForTheDestination"},
	},
	{
		defect: "dead letters that a transaction has passed are removed",
		file:   deliverGo,
		old:    "d.letters.forgetPending(max(b.first, d.packer.has), b.last)",
		new:    "d.letters.forgetPending(b.first, b.last)",
		tests:  []string{"TestRecordsWaitForTheDestination"},
	},
	{
		defect: "a record is sent in a transaction while its old letter is there",
		file:   deliverGo,
		old:    "\tif !d.until(ctx, forget) {\n",
		new:    "\tif _ = forget(); false {\n",
		tests:  []string{"TestLetterIsGoneBeforeItsRecordIsSent"},
	},
	{
		defect: "a letter that a transaction has passed counts as delivered",
		file:   "exporter/packer.go",
		old:    "if isThere && k.isLetter(r.Seq) {",
		new:    "if isThere && k.isLetter == nil {",
		tests:  []string{"TestFollowWithAnotherFilter"},
	},
	{
		defect: "memory does not count with what a sink gathers",
		file:   "exporter/memory.go",
		old:    "batch := max(int64(s.most().MaxBytes), record)",
		new:    "batch := max(int64(s.Batch.MaxBytes), record)",
		tests:  []string{"TestGather"},
	},
	{
		defect: "a backlog is taken in batches as configured",
		file:   "exporter/queue/cursor.go",
		old:    "return max(l.Records, l.Most.Records)",
		new:    "return l.Records",
		tests:  []string{"TestNextTakesMoreOfABacklog"},
	},
	{
		defect: "a batch that is full waits for more to gather",
		file:   cursorReadGo,
		old:    "return c.holds(lim.Records, lim.Bytes), nil",
		new:    "return false, nil",
		tests:  []string{"TestNextTakesMoreOfABacklog"},
	},
	{
		defect: "a record that cannot be redacted is stored as it is",
		file:   verdictGo,
		old:    "reason != \"\" {\n\t\t\treturn reason, detail\n\t\t}\n\t}\n\tif bytes.HasPrefix",
		new:    "reason != \"\" {\n\t\t\trecords = append(records, line...)\n\t\t}\n\t}\n\tif bytes.HasPrefix",
		tests:  []string{"TestUnredactableIsRefused"},
	},
	{
		defect: "a purged letter leaves the books unbalanced",
		file:   "exporter/queue/state/account.go",
		old:    "\ta.Dropped += dropped\n",
		new:    "",
		tests:  []string{"TestAdopt"},
		in:     "exporter/queue/state",
	},
	{
		defect: "more is dropped for room than is dropped",
		file:   "exporter/queue/state/account.go",
		old:    "\ta.ForRoom = min(a.ForRoom, a.Dropped)\n\treturn a.Split",
		new:    "\treturn a.Split",
		tests:  []string{"TestAdopt"},
		in:     "exporter/queue/state",
	},
	{
		defect: "a letter that a full queue dropped first counts for room still",
		file:   "exporter/queue/state/account.go",
		old:    "\t\ta.ForRoom -= min(a.ForRoom, gone)\n",
		new:    "",
		in:     "exporter/queue/state",
		tests:  []string{"TestForRoomIsAPartOfDropped"},
	},
	{
		defect: "a replayed record counts as dropped for room still",
		file:   "exporter/queue/state/account.go",
		old:    "\ta.ForRoom = min(a.ForRoom, a.Dropped)\n\tif rest",
		new:    "\tif rest",
		in:     "exporter/queue/state",
		tests:  []string{"TestForRoomIsAPartOfDropped"},
	},
	{
		defect: "a letter is removed before its delivery is durable in the account",
		file:   "exporter/queue/cursordone.go",
		old:    "\terr := c.q.saveAccounts(ctx)\n",
		new:    "\tvar err error\n",
		tests:  []string{"TestRedelivered"},
	},
	{
		defect: "a consumer takes a redelivery for news",
		file:   "decision/once/filter.go",
		old:    "if d.Seq <= q.highest {",
		new:    "if d.Seq < q.highest {",
		tests:  []string{"TestTake"},
	},
	{
		defect: "an event that is cut behind a backslash ends at the next quote",
		file:   "decision/rawjson/walk.go",
		old:    "e.escaped = isEscaped(rest, len(rest))",
		new:    "e.escaped = false",
		tests:  []string{"TestEndInPieces"},
	},
	{
		defect: "of a member that stands twice the normalised form mixes both",
		file:   "decision/normalizemembers.go",
		old:    "clear(f.at[below.first : below.last+1])",
		new:    "_ = below",
		tests:  []string{"TestNormalizeOdd"},
	},
	{
		defect: "a document that is there already counts as rejected",
		file:   "sinks/httpsink/encoding/bulkresult.go",
		old:    "r.status == http.StatusConflict && e.op",
		new:    "false && e.op",
		tests:  []string{"TestBulkResults"},
	},

	// Sources of engines as they are.
	{
		defect: "an upload is answered before it is durable",
		file:   "sources/httpsource/handler.go",
		old:    "\treturn s.committer.wait(ctx, body.through)\n",
		new:    "\treturn nil\n",
		tests:  []string{"TestAnswersOnceDurable"},
	},
	{
		defect: "events are submitted though their ids could not be written down",
		file:   "sources/httpsource/committer.go",
		old:    "if !c.writeDown() {",
		new:    "if c.writeDown(); false {",
		tests:  []string{"TestLogFails", "TestWrittenDownFirst"},
	},
	{
		defect: "numbers that were taken back keep their ids",
		file:   "sources/known/log.go",
		old:    "if next > l.last.first || l.truncate(l.last.at) != nil {",
		new:    "if next > l.last.first {",
		tests:  []string{"TestCut", "TestCrashModel"},
	},
	{
		defect: "after a crash ids of what was never stored are known",
		file:   "sources/known/log.go",
		old:    "\tl.window.cut(l.next)\n",
		new:    "",
		tests:  []string{"TestRestore", "TestCrashModel"},
	},
	{
		defect: "an audit without a violation is complete",
		file:   "sources/gatekeepersource/runs/tally.go",
		in:     "sources/gatekeepersource",
		old:    "\tcase t.violations == 0:\n\t\treturn decision.NoRecords\n",
		new:    "",
		tests:  []string{"TestFailedAuditIsFlagged"},
	},
	{
		defect: "an incomplete audit resolves violations",
		file:   "sources/delta/run.go",
		old:    "r.resolve = complete && !r.late",
		new:    "r.resolve = !r.late",
		tests:  []string{"TestModel"},
	},
	{
		defect: "lines that a full queue turned away are not sent again",
		file:   "sources/feed/feed.go",
		old:    "\t\terr = f.again(ctx, submit)\n",
		new:    "\t\terr = f.renew(ctx)\n",
		tests:  []string{"TestFull"},
	},
	{
		defect: "a refused line is taken for another that had its number",
		file:   "exporter/kept.go",
		old:    "\treturn keptLine{l.Number, maphash.Bytes(seed, text)}\n",
		new:    "\t_ = text\n\treturn keptLine{l.Number, 0}\n",
		tests:  []string{"TestNumberOfALineThatWasTurnedAway"},
	},
	{
		defect: "a stop drops what a producer in plain mode has written",
		file:   "sources/streamsource/conn.go",
		old:    "c.looking && (!errors.Is(why, errStopping) || !c.lines.ready())",
		new:    "c.looking",
		tests:  []string{"TestStopReadsWhatPlainProducersWroteThoughLate"},
	},
	{
		defect: "a file that was renamed before it was opened is taken for the one that had its name",
		file:   "sources/tailsource/follow/predecessors.go",
		old:    "if info.identity != c.identity {",
		new:    "if false {",
		tests:  []string{"TestRenamedSinceItWasListed"},
	},
}
