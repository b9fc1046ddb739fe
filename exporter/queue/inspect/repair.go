package inspect

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/docket-export/docket/exporter/queue/state"
)

// Repair handles the findings of Check whose field Repair says how. It copies
// unreadable bytes to quarantine, opens and closes the queue as a start of the
// exporter would, and records which records are lost. All changes are durable. Of
// what is readable, it removes or moves only segments of another queue; it
// removes nothing unreadable. After an error, part of the work may be done: call
// Check, and then Repair again.
//
// reopen opens the queue and closes it again, as queue.Reopen does; spareBytes is the
// size of its spares, 0 when there are none. Repair releases the lock for it, and
// fails with *state.InUseError when an exporter starts in between.
func (o *Queue) Repair(ctx context.Context, findings []Finding, reopen func(ctx context.Context, spareBytes int64) error) error {
	if err := o.acquire(); err != nil {
		return err
	}
	for _, f := range findings {
		if err := o.keepBytes(f); err != nil {
			return fmt.Errorf("queue %s: repair: %w", o.dir, err)
		}
	}
	if err := o.reopened(ctx, reopen); err != nil {
		return err
	}
	if err := o.countLost(findings); err != nil {
		return fmt.Errorf("queue %s: repair: %w", o.dir, err)
	}
	return o.look()
}

// keepBytes copies to quarantine what f is about and cannot be read. What else has
// to be done opening the queue does, which writes a damaged slot of the cursors
// anew from the other, too.
func (o *Queue) keepBytes(f Finding) error {
	switch f.Kind {
	case damagedFrames, lostEnd, damagedHeader, damagedSlot:
		return o.copyAside(f.File, f.Offset, f.End)
	}
	return nil
}

// copyAside copies the bytes from..to of a file to quarantine, unless a copy of
// them is there.
func (o *Queue) copyAside(name string, from, to int64) error {
	if o.isCopied(name, from, to) {
		return nil
	}
	file, err := o.fsys.Open(o.path(name))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer file.Close()
	content := make([]byte, to-from)
	if _, err := file.ReadAt(content, from); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: read %d bytes at %d: %w", name, to-from, from, err)
	}
	if err := o.at(state.QuarantineDir).MakeDir(); err != nil {
		return fmt.Errorf("%s: %w", state.QuarantineDir, err)
	}
	if err := o.at(state.QuarantineDir, fmt.Sprintf("%s.%d-%d", name, from, to)).Replace(content); err != nil {
		return fmt.Errorf("%s: copy %d bytes at %d to %s: %w", name, to-from, from, state.QuarantineDir, err)
	}
	return nil
}

// reopened has reopen put right what opening the queue does, and looks again.
func (o *Queue) reopened(ctx context.Context, reopen func(ctx context.Context, spareBytes int64) error) error {
	if err := o.Close(); err != nil {
		return fmt.Errorf("queue %s: repair: %w", o.dir, err)
	}
	var spareBytes int64
	if len(o.spares) > 0 {
		spareBytes = o.spares[0].Size
	}
	if err := reopen(ctx, spareBytes); err != nil {
		return err
	}
	if err := o.acquire(); err != nil {
		return err
	}
	return o.look()
}

// countLost records in the positions file, which the opening has made, the
// records that findings say are lost.
func (o *Queue) countLost(findings []Finding) error {
	if o.found.CheckpointErr != nil {
		return o.found.CheckpointErr
	}
	c := o.found.Checkpoint
	if !o.found.HasCheckpoint {
		c = state.Checkpoint{Queue: o.found.Queue, NextSeq: 1}
		c.Sources = map[string]*state.SourceTally{}
	}
	isNew := false
	for _, f := range findings {
		if f.Severity == Damage && f.Lost.Size() > 0 {
			isNew = c.AddLost(f.Lost) || isNew
		}
	}
	if !isNew {
		return nil
	}
	return state.WriteCheckpoint(o.fsys, o.dir, c)
}
