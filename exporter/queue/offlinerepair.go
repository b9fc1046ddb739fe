package queue

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
)

// Repair deals with findings of Check, those whose Repair says how. It copies to
// quarantine what cannot be read, opens the queue and closes it again, as a start
// of the exporter would, and records which records are lost, all of it durably.
// Nothing readable is removed or moved but segments of another queue, and nothing
// unreadable is removed. After an error some of it may be done; it can be called
// again after another Check.
//
// opts are those of the exporter; the directory is that of o. To open the queue o
// lets go of it for a moment, and fails with *InUseError when an exporter comes in
// between.
func (o *Offline) Repair(ctx context.Context, findings []Finding, opts Options) error {
	if err := o.takeLock(); err != nil {
		return err
	}
	for _, f := range findings {
		if err := o.keepBytes(f); err != nil {
			return fmt.Errorf("queue %s: repair: %w", o.dir, err)
		}
	}
	if err := o.openOnce(ctx, opts); err != nil {
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
func (o *Offline) keepBytes(f Finding) error {
	switch f.Kind {
	case DamagedFrames, LostEnd, DamagedHeader, DamagedSlot:
		return o.copyAside(f.File, f.Offset, f.End)
	}
	return nil
}

// copyAside copies the bytes from..to of a file to quarantine, unless a copy of
// them is there.
func (o *Offline) copyAside(name string, from, to int64) error {
	if o.isCopied(name, from, to) {
		return nil
	}
	file, err := o.fsys.Open(o.path(name))
	if err != nil {
		return fmt.Errorf("%s: %w", name, err)
	}
	defer file.Close()
	content := make([]byte, to-from)
	if _, err := readFull(file, content, from); err != nil && !errors.Is(err, io.EOF) {
		return fmt.Errorf("%s: read %d bytes at %d: %w", name, to-from, from, err)
	}
	if err := makeDir(o.fsys, o.dir, quarantineDir); err != nil {
		return fmt.Errorf("%s: %w", quarantineDir, err)
	}
	if err := replaceFile(o.fsys, o.path(quarantineDir, fmt.Sprintf("%s.%d-%d", name, from, to)), content); err != nil {
		return fmt.Errorf("%s: copy %d bytes at %d to %s: %w", name, to-from, from, quarantineDir, err)
	}
	return nil
}

// openOnce opens the queue and closes it. All that is kept stays.
func (o *Offline) openOnce(ctx context.Context, opts Options) error {
	if err := o.Close(); err != nil {
		return fmt.Errorf("queue %s: repair: %w", o.dir, err)
	}
	opts.Directory, opts.FS, opts.Retain = o.dir, o.fsys, Retain{MaxBytes: math.MaxInt64}
	if opts.SegmentBytes == 0 && opts.MaxBytes == 0 && len(o.spares) > 0 {
		opts.SegmentBytes = o.spares[0].Size // or they would be thrown away
	}
	q, err := Open(opts)
	if err != nil {
		return err
	}
	if err := q.Close(ctx); err != nil {
		return fmt.Errorf("queue %s: repair: %w", o.dir, err)
	}
	if err := o.takeLock(); err != nil {
		return err
	}
	return o.look()
}

// countLost records in the positions file, which the opening has made, the
// records that findings say are lost.
func (o *Offline) countLost(findings []Finding) error {
	if o.checkpointErr != nil {
		return o.checkpointErr
	}
	c := o.checkpoint
	if !o.hasCheckpoint {
		c = checkpoint{Queue: o.id, NextSeq: 1, totals: totals{Sources: map[string]*SourceTally{}}}
	}
	isNew := false
	for _, f := range findings {
		if f.Severity == Damage && f.Lost.Size() > 0 {
			isNew = c.addLost(f.Lost) || isNew
		}
	}
	if !isNew {
		return nil
	}
	return writeCheckpoint(o.fsys, o.dir, c)
}
