package queue

import "github.com/docket-export/docket/exporter/queue/segment"

// MemoryBytes is what a queue has in memory at most, beside the positions of producers
// and its cursors: two commits, each as large as one gathers or as the longest record, and
// what a buffer that grows has more.
func MemoryBytes(maxRecord int) int64 {
	return 2 * int64(max(maxCommitBytes*5/4, maxRecord+segment.ReadSize/4))
}

// MemoryBytes is what a cursor has in memory at most for such batches: its reader's
// buffer, which holds a whole frame.
func (l Limits) MemoryBytes(maxRecord int) int64 {
	return int64(max(segment.ReadSize, l.Bytes+segment.ReadSize/4, maxRecord+segment.ReadSize/4))
}
