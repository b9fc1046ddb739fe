package queue

import (
	"hash/crc32"

	"github.com/google/uuid"

	"github.com/docket-export/docket/exporter/queue/segment"
	"github.com/docket-export/docket/exporter/queue/state"
	"github.com/docket-export/docket/internal/disk"
)

// The format, as doc.go has it.
const (
	segmentSuffix  = ".segment"
	segmentVersion = 3

	frameEpochAt = 8
	frameSeqAt   = 24
	frameFixed   = 72
	frameAlign   = 8
	maxName      = 255
	maxTallies   = 32

	cursorsVersion = 4
	slotSize       = 64 << 10
	slotHead       = 64

	positionsVersion = 2
	positionsHead    = "docket positions %d crc32c %08x\n"
)

// headerSum is the checksum of a segment's header, and slotSum that of a slot.
func headerSum(b []byte) uint32 { return slotSum(b[:80]) }

func slotSum(b []byte) uint32 {
	return crc32.Update(crc32.Checksum(b[:12], castagnoli), castagnoli, b[16:])
}

// encodeHeader returns the first block of a segment.
func encodeHeader(h segment.Header, name segment.Name) []byte {
	var w lastWrite
	_ = segment.WriteHeader(&w, h, name)
	return w.content
}

// encodeSlot returns a slot of the cursors file.
func encodeSlot(id uuid.UUID, generation uint64, accounts map[string]Account) []byte {
	var w lastWrite
	_ = (&state.CursorFile{File: &w, Queue: id, Generation: generation - 1}).Write(accounts)
	return w.content
}

// counts is a without the time at which the sink was new or set back.
func counts(a Account) Account {
	a.Replayed = 0
	return a
}

// lastWrite is a file that keeps what is written to it last.
type lastWrite struct {
	disk.File
	content []byte
}

func (w *lastWrite) WriteAt(p []byte, _ int64) (int, error) {
	w.content = append([]byte(nil), p...)
	return len(p), nil
}

func (w *lastWrite) Sync() error { return nil }
