// Package tailsource takes records out of a log file, through every rotation: it loses
// no line that was in a file it could open, and stores none twice.
//
//	config.go        the source "tail": its configuration
//	source.go        the source: a follower and a reader
//	follow.go        which files there are to read, and in which order
//	held.go          the follower as the reader sees it
//	place.go         where a path leads
//	identity.go      what tells files apart
//	generation.go    the contents of a file, until it is replaced or truncated
//	predecessors.go  files found by what is known of them: rotated, or copied
//	read.go          one file, from a position to its end
//	send.go          records on their way to the queue, and the position behind them
//	state.go         what is known after a restart
//	recall.go        lines in pieces read again, where the state has not their text
//	split.go         bytes cut into lines
//	cri.go           the framing of container runtimes
//	decode.go        lines chosen by format
//	audits.go        Gatekeeper's totals against the lines that a log shows
//	report.go        what /status says
//
// # Two goroutines
//
// The follower looks at the path whenever something has changed there, and opens each
// new file. The reader reads the oldest of them to its end before the next, and waits
// when the queue is full. As the follower does not wait with it, rotation can rename
// and delete files meanwhile: they are open. Libraries that follow files with one
// goroutine and one descriptor lose them; github.com/nxadm/tail was measured to lose
// most lines of a log that rotates four times while its reader is blocked, and ends the
// process when a file cannot be examined.
//
// # When a file is at its end
//
// A file is finished when a later one has contents, so that the writer has moved on, a
// second has passed, and a read then finds nothing. A last line without a newline is
// taken for a line then. What is written even later is found when the log rotates again.
//
// # Exactly once
//
// Each contents of a file are a producer of their own, with a name that is durable
// before the first record is sent under it. Records are numbered by the bytes of the
// file alone; what a file carries over to the next, a run of an audit or a line in
// pieces, is part of the state. The state is written after the records are durable, at
// most once a second. What is read again after a crash has the numbers it had, and the
// queue recognises it.
//
// # Truncation
//
// Before anything that was read is decoded, the beginning of the file and what is
// before the position are compared with what they were: a file that was truncated and
// has grown past the position again is met. The rest of the old contents is looked for
// in the copy that was made of them.
package tailsource
