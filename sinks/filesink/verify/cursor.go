package verify

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"iter"
	"os"

	"github.com/docket-export/docket/sinks/filesink/manifest"
)

// export is what cursors read: the lines of a manifest, and what has been accepted
// behind them where that is known.
type export struct {
	root     *os.Root
	lines    iter.Seq2[*manifest.Line, error]
	position *manifest.Position
	active   *os.File // that position names; nil when it names none
}

// cursor goes through one queue in an export, in the order of seqs. The files are
// read as far as they are asked for.
type cursor struct {
	export
	ctx   context.Context
	queue string
	next  func() (*manifest.Line, error, bool)
	stop  func()

	number  uint64          // of the line read last
	entry   *manifest.Entry // nil before the first and behind the last
	line    uint64          // that of the entry, 0 for the unfinished file
	atEnd   bool            // behind the last entry
	seq     uint64          // of the next line of the file
	record  uint64          // lines of the file that were read
	reader  *lineReader     // nil: the file is not open
	file    *os.File        // that is open, unless it is the unfinished one
	removed bool            // the file is not there
}

func (x *export) cursor(ctx context.Context, queue string) *cursor {
	c := &cursor{export: *x, ctx: ctx, queue: queue}
	c.next, c.stop = iter.Pull2(x.lines)
	return c
}

func (c *cursor) close() {
	c.stop()
	c.closeFile()
}

func (c *cursor) closeFile() {
	if c.reader != nil {
		c.reader.close()
	}
	if c.file != nil {
		c.file.Close()
	}
	c.reader, c.file = nil, nil
}

// place is where the record with a seq is, or why it is nowhere.
type place struct {
	kind   placeKind
	data   []byte // valid until the next call
	file   string
	line   uint64 // of the manifest; 0: of the position
	record uint64 // line of the file
}

type placeKind int

const (
	isRecord  placeKind = iota
	isEarlier           // before the export began
	isGap
	isRemoved // with its file, by retention
	isBehind  // behind the end of the export
)

// find returns the place of seq, which must be higher than at the call before.
func (c *cursor) find(seq uint64) (place, error) {
	for !c.atEnd && (c.entry == nil || c.entry.LastSeq < seq) {
		if err := c.advance(); err != nil {
			return place{}, err
		}
	}
	if c.entry == nil || c.entry.LastSeq < seq {
		if p := c.position; p != nil && seq <= p.Last {
			if _, ok := p.Gaps.Find(seq); ok {
				return place{kind: isGap}, nil
			}
		}
		return place{kind: isBehind}, nil
	}
	if _, ok := c.entry.Gaps.Find(seq); ok {
		return place{kind: isGap, line: c.line}, nil
	}
	if seq < c.seq {
		return place{kind: isEarlier}, nil
	}
	return c.read(seq)
}

// following returns the place of the next record from seq from on, and its seq. A
// file that was removed is passed over, and told as a place. At the end atEnd is set.
func (c *cursor) following(from uint64) (at place, seq uint64, err error) {
	for !c.atEnd && (c.entry == nil || c.seq > c.entry.LastSeq || c.removed || c.entry.LastSeq < from) {
		if err := c.advance(); err != nil {
			return place{}, 0, err
		}
	}
	if c.atEnd {
		return place{}, 0, nil
	}
	seq = c.entry.Gaps.Next(max(c.seq, from))
	if seq > c.entry.LastSeq {
		c.seq = seq
		return place{kind: isGap}, seq, nil
	}
	at, err = c.read(seq)
	return at, seq, err
}

// advance goes to the next entry of the queue, or to the unfinished file.
func (c *cursor) advance() error {
	if err := c.ctx.Err(); err != nil {
		return err
	}
	c.closeFile()
	c.removed = false
	for {
		line, err, ok := c.next()
		if err != nil {
			return err
		}
		if !ok {
			c.atEnd, c.line = true, 0
			if c.position != nil && c.position.Active != nil {
				c.enter(c.position.Active)
			}
			return nil
		}
		c.number++
		if e := line.Entry; e != nil && e.Queue == c.queue {
			c.line = c.number
			c.enter(e)
			return nil
		}
	}
}

// enter begins with an entry. Its file is opened when it is needed.
func (c *cursor) enter(e *manifest.Entry) {
	c.entry, c.record = e, 0
	c.seq = e.FirstSeq
}

// read returns the line that is the record seq, which the entry says it has.
func (c *cursor) read(seq uint64) (place, error) {
	if c.reader == nil && !c.removed {
		if err := c.openFile(); err != nil {
			return place{}, err
		}
	}
	if c.removed {
		return place{kind: isRemoved}, nil
	}
	for {
		data, err := c.reader.next()
		if err != nil {
			return place{}, c.unreadable(err)
		}
		at := place{data: data, file: c.entry.Name, line: c.line, record: c.record + 1}
		here := c.seq
		c.record++
		c.seq = c.entry.Gaps.Next(here + 1)
		if here == seq {
			return at, nil
		}
		if c.record%1024 == 0 && c.ctx.Err() != nil {
			return place{}, c.ctx.Err()
		}
	}
}

// unreadable is what err means, met where a line had to be.
func (c *cursor) unreadable(err error) error {
	if errors.Is(err, io.EOF) {
		err = io.ErrUnexpectedEOF
	}
	return contentErrorOf(fmt.Errorf("line %d: %w", c.record+1, err))
}

// openFile opens the file of the entry, as far as its bytes count.
func (c *cursor) openFile() (err error) {
	f := c.active
	if c.line > 0 {
		f, _, err = open(c.root, c.entry.Name)
		if errors.Is(err, fs.ErrNotExist) {
			// Run has seen it, or the line that says so, which may be a newer one.
			c.removed = true
			return nil
		}
		if err != nil {
			return err
		}
		c.file = f
	}
	c.reader, err = newLineReader(c.entry.Name, io.NewSectionReader(f, 0, c.entry.Bytes))
	if err != nil {
		return c.unreadable(err)
	}
	return nil
}
