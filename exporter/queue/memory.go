package queue

import "github.com/docket-export/docket/exporter/queue/segment"

// MemoryBytes is the most memory that a queue takes, without the positions of producers
// and its cursors. It counts two commits, each as large as a commit or as the longest
// record, and the spare capacity of growing buffers.
func MemoryBytes(maxRecord int) int64 {
	return 2 * int64(max(maxCommitBytes*5/4, maxRecord+segment.ReadSize/4))
}

// MemoryBytes is the most memory that a cursor takes for such batches: its reader's
// buffer, which holds a whole frame.
func (l Limits) MemoryBytes(maxRecord int) int64 {
	return int64(max(segment.ReadSize, l.mostBytes()+segment.ReadSize/4, maxRecord+segment.ReadSize/4))
}
