// Package follow finds the files of a log that rotates, holds them open in the order in
// which they are to be read, and reads each from a position to its end.
//
//	follow.go        which files there are to read, and in which order
//	held.go          the follower as its readers see it
//	reader.go        one file, from a position to its end
//	contents.go      what is known of the contents of a file
//	rotation.go      when a file counts as rotated, replaced or overwritten
//	generation.go    the contents of a file, until it is replaced or truncated
//	predecessors.go  files found by what is known of them: rotated, or copied
//	identity.go      what tells files apart
//	claims.go        which of several followers has a file
//	place.go         where a path leads
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
// before the position are compared with what they were: a file that was truncated and
// has grown past the position again is met. The rest of the old contents is looked for
// in the copy that was made of them.
package follow
