// Package follow finds the files of a log that rotates, holds them open in the order in
// which they are to be read, and reads each from a position to its end.
//
//	follow.go    which files there are to read, and in which order
//	beside.go    the rules by which a file beside the log is read or not
//	held.go      the follower as its reader sees it
//	reader.go    one file, from a position to its end
//	contents.go  what is known of the contents of a file
//	identity.go  what tells files apart
//	claims.go    which of several followers has a file
//
// # When a file is at its end
//
// A file is finished when a later one has contents, so that the writer has moved on, a
// grace has passed, and a read then finds nothing. A last line without a newline is
// taken for a line then. What is written even later is found when the log rotates again.
//
// # Truncation
//
// Before anything that was read is decoded, the beginning of the file and what is
// before the position are compared with what they were. So docket notices that a file
// was truncated even if it has grown past the position again. What was not read of the
// old contents is lost, and counted as far as it was seen.
package follow
