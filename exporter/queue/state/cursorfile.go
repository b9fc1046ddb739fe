package state

import (
	"bytes"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"maps"
	"path/filepath"
	"slices"

	"github.com/google/uuid"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/fileversion"
)

// The file "cursors" holds the accounts of all sinks twice: a write goes to the
// slot that is not the newest, so that a torn write costs the last step and
// never the file. Layout of a slot: doc.go.
const (
	CursorsFile    = "cursors"
	cursorsMagic   = "docketcu"
	cursorsVersion = 4
	cursorsHead    = 64
	cursorEntry    = 10 * 8 // an Account, after its name and the name's length
	// slotSize holds MaxCursors entries with the longest names.
	slotSize   = 64 << 10
	MaxCursors = 128
)

// CursorFile is the open file "cursors". Owned by the janitor.
type CursorFile struct {
	File       disk.File
	Queue      uuid.UUID
	Generation uint64 // of the newest valid slot
	// The bytes of the slot that is damaged beside a whole one; DamagedEnd is 0 for none.
	Damaged, DamagedEnd int64
	// found is what Open has read: perhaps from the page cache alone, because the
	// process before has ended between a write and its sync. nil once it is
	// durable for certain.
	found map[string]Account
}

// CreateCursorFile makes a file with both slots written, so that no later write
// needs new blocks: moving a cursor must work on a full disk.
func CreateCursorFile(fsys disk.FS, dir string, id uuid.UUID, accounts map[string]Account) (*CursorFile, error) {
	content := make([]byte, 2*slotSize)
	copy(content, encodeSlot(id, 1, accounts))
	path := disk.On(fsys, dir).Join(CursorsFile)
	if err := path.Replace(content); err != nil {
		return nil, fmt.Errorf("cursors: create: %w", err)
	}
	f, err := fsys.Open(path.String())
	if err != nil {
		return nil, fmt.Errorf("cursors: open: %w", err)
	}
	return &CursorFile{File: f, Queue: id, Generation: 1}, nil
}

// checkSlotVersion fails with *fileversion.Error when a slot, of the file at path, is
// whole and of a version that this docket does not read. Also one such slot beside
// another of this version is newer, or was written by a docket that is.
func checkSlotVersion(b []byte, path string) error {
	if v := le.Uint32(b[8:]); isSlot(b) && v != cursorsVersion {
		return &fileversion.Error{File: path, Found: uint64(v), Known: cursorsVersion}
	}
	return nil
}

// isSlot reports whether b begins with a slot whose checksum holds, of any version.
func isSlot(b []byte) bool {
	if len(b) < cursorsHead || string(b[:8]) != cursorsMagic {
		return false
	}
	size := int(le.Uint32(b[44:]))
	return cursorsHead <= size && size <= len(b) && le.Uint32(b[12:]) == slotCRC(b[:size])
}

// ErrCursors says that the cursors file exists, but neither slot is whole.
var ErrCursors = errors.New("cursors: both slots damaged")

// OpenCursorFile returns the newest accounts on disk. When the file does not
// exist the error satisfies notExist; when it is whole and of another version it is a
// *fileversion.Error.
func OpenCursorFile(fsys disk.FS, dir string) (*CursorFile, map[string]Account, error) {
	f, err := fsys.Open(filepath.Join(dir, CursorsFile))
	if err != nil {
		return nil, nil, fmt.Errorf("cursors: open: %w", err)
	}
	content := make([]byte, 2*slotSize)
	if _, err := f.ReadAt(content, 0); err != nil && !errors.Is(err, io.EOF) {
		f.Close()
		return nil, nil, fmt.Errorf("cursors: read: %w", err)
	}
	c := &CursorFile{File: f}
	var newest map[string]Account
	for slot := range 2 {
		b := content[slot*slotSize : (slot+1)*slotSize]
		if err := checkSlotVersion(b, filepath.Join(dir, CursorsFile)); err != nil {
			f.Close()
			return nil, nil, err
		}
		id, generation, accounts, ok := decodeSlot(b)
		if !ok && !bytes.Equal(b, make([]byte, slotSize)) { // one that was never written is zero
			c.Damaged, c.DamagedEnd = int64(slot)*slotSize, int64(slot+1)*slotSize
		}
		if ok && generation > c.Generation {
			c.Queue, c.Generation, newest = id, generation, accounts
		}
	}
	if newest == nil {
		f.Close()
		return nil, nil, ErrCursors
	}
	c.found = newest
	return c, newest, nil
}

// Confirm makes durable what Open has found. It writes the same bytes to the same
// place, so that a crash meanwhile costs neither slot.
func (c *CursorFile) Confirm() error {
	if c.found == nil {
		return nil
	}
	c.Generation--
	if err := c.Write(c.found); err != nil {
		c.Generation++
		return err
	}
	c.found = nil
	return nil
}

// Write makes accounts durable. After an error the file holds the accounts of
// the last successful write or these.
func (c *CursorFile) Write(accounts map[string]Account) error {
	generation := c.Generation + 1
	offset := int64(generation%2) * slotSize
	// Generation 1 is in slot 0 from the start, so generation 2 must not be.
	offset = slotSize - offset
	if _, err := c.File.WriteAt(encodeSlot(c.Queue, generation, accounts), offset); err != nil {
		return fmt.Errorf("cursors: write: %w", err)
	}
	if err := c.File.Sync(); err != nil {
		return fmt.Errorf("cursors: sync: %w", err)
	}
	c.Generation = generation
	return nil
}

// encodeSlot returns a slot of the cursors file.
func encodeSlot(id uuid.UUID, generation uint64, accounts map[string]Account) []byte {
	b := append(make([]byte, 0, cursorsHead), cursorsMagic...)
	b = b[:cursorsHead]
	le.PutUint32(b[8:], cursorsVersion)
	le.PutUint64(b[16:], generation)
	copy(b[24:40], id[:])
	le.PutUint32(b[40:], uint32(len(accounts)))
	for _, name := range slices.Sorted(maps.Keys(accounts)) {
		b = append(b, byte(len(name)))
		b = append(b, name...)
		a := accounts[name]
		for _, v := range a.fields(new(uint64)) {
			b = le.AppendUint64(b, *v)
		}
		b = le.AppendUint64(b, uint64(a.Replayed))
	}
	le.PutUint32(b[44:], uint32(len(b)))
	le.PutUint32(b[12:], slotCRC(b))
	return b
}

// slotCRC is the checksum of a slot.
func slotCRC(b []byte) uint32 {
	crc := crc32.Update(0, castagnoli, b[:12])
	return crc32.Update(crc, castagnoli, b[16:])
}

// decodeSlot reads a slot; ok is false when it is not whole.
func decodeSlot(b []byte) (id uuid.UUID, generation uint64, accounts map[string]Account, ok bool) {
	if !isSlot(b) || le.Uint32(b[8:]) != cursorsVersion {
		return uuid.Nil, 0, nil, false
	}
	accounts = map[string]Account{}
	rest := b[cursorsHead:le.Uint32(b[44:])]
	for range le.Uint32(b[40:]) {
		if len(rest) < 1 || len(rest) < 1+int(rest[0])+cursorEntry {
			return uuid.Nil, 0, nil, false
		}
		n := 1 + int(rest[0])
		name := string(rest[1:n])
		var a Account
		var redriving uint64
		for i, v := range a.fields(&redriving) {
			*v = le.Uint64(rest[n+8*i:])
		}
		a.DeadLettered += redriving
		a.Replayed = int64(le.Uint64(rest[n+cursorEntry-8:]))
		accounts[name] = a
		rest = rest[n+cursorEntry:]
	}
	return uuid.UUID(b[24:40]), le.Uint64(b[16:]), accounts, true
}
