package queue

import "github.com/docket-export/docket/exporter/queue/segment"

// MemoryBytes is what a queue has in memory at most, beside the positions of producers
// and its cursors: two commits, each as large as one gathers or as the longest record, and
// what a buffer that grows has more.
func MemoryBytes(maxRecord int) int64 {
	return 2 * int64(max(maxCommitBytes*5/4, maxRecord+segment.ReadSize/4))
}

// CursorBytes is what a cursor has in memory at most for batches of batch bytes: its
// reader's buffer, which holds a whole frame.
func CursorBytes(batch, maxRecord int) int64 {
	return int64(max(segment.ReadSize, batch+segment.ReadSize/4, maxRecord+segment.ReadSize/4))
}
