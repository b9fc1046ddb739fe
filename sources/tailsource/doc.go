// Package tailsource takes records out of a log file, through every rotation: it loses
// no line that was in a file it could open, and stores none twice.
//
//	follow/      which files there are to read, in which order, and how far they were read
//	formats/     what a line means
//	config.go    the source "tail": its configuration
//	source.go    Run: what the path names now
//	logs.go      the files of a pattern or a directory: a follower, a reader and a state for each
//	paths.go     which files those are
//	read.go      one file after the other, from a position to its end
//	send.go      records on their way to the queue, and the position behind them
//	state.go     what is known after a restart
//	report.go    what /status says
//
// # Two goroutines
//
// The follower looks at the path every second, and opens each new file. The reader reads the oldest of them to its end before the next, and waits
// when the queue is full. As the follower does not wait with it, rotation can rename
// and delete files meanwhile: they are open. Libraries that follow files with one
// goroutine and one descriptor lose them; github.com/nxadm/tail was measured to lose
// most lines of a log that rotates four times while its reader is blocked, and ends the
// process when a file cannot be examined.
//
// # Exactly once
//
// Each contents of a file are a producer of their own, with a name that is durable
// before the first record is sent under it. Records are numbered by the bytes of the
// file alone; what a file carries over to the next, a line in pieces, is part of the
// state. The state is written after the records are durable, at
// most once a second. What is read again after a crash has the numbers it had, and the
// queue recognises it.
package tailsource
