package known

import (
	"errors"
	"fmt"
	"io/fs"
	"slices"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/fileversion"
)

const (
	fileName = "known"
	// ahead is how far zeros are written before an entry needs the room: some 16,000
	// identities.
	ahead = 256 << 10
	// maxFile is when the file is written anew, unless what is known takes half of that
	// already. It takes 1 MiB, so an identity costs 21 bytes of writing instead of 16.
	maxFile = 4 << 20
	// maxRead bounds what is read of a file that is none of ours.
	maxRead = 64 << 20
)

// Log remembers the records of one producer. Its methods must not overlap.
type Log struct {
	path   disk.Path
	window window

	next    uint64 // the number of the next record
	settled uint64 // every record up to here is durable
	told    uint64 // settled, as the file has it
	added   []ID   // since the last Sync: the numbers before next

	file disk.File // nil: there is none that could be trusted, and it is to be written anew
	end  int64     // where the next entry begins
	size int64     // of file: zeros follow end
	last place     // of the entry that the last Sync wrote
	buf  []byte
}

// place is where an entry is in the file.
type place struct {
	first uint64 // 0: there is no such entry
	at    int64
}

// Open reads the log in dir, if there is one. skipped is how many bytes of it were not
// entries, because of a crash or of damage. Restore must come next. A log of a version
// that this docket does not read is a *fileversion.Error, and is left as it is.
func Open(dir disk.Path) (l *Log, skipped int, err error) {
	l = &Log{path: dir.Join(fileName)}
	data, err := l.read(maxRead)
	if err == nil {
		err = l.checkVersion(data)
	}
	if unknown, ok := errors.AsType[*fileversion.Error](err); ok {
		return nil, 0, unknown
	}
	if err != nil {
		return nil, 0, fmt.Errorf("log of known records: %w: fix the cause or remove the file. Without the file, records that are sent again may be stored twice", err)
	}
	skipped = scan(data, l.load)
	return l, skipped, nil
}

// Check reports a log in dir of a version that Open would not read, as a
// *fileversion.Error. It changes nothing.
func Check(dir disk.Path) error {
	l := &Log{path: dir.Join(fileName)}
	data, _ := l.read(maxEntry) // Open says what is wrong
	return l.checkVersion(data)
}

// checkVersion looks at how the file begins: it is written as a whole, an entry first.
func (l *Log) checkVersion(data []byte) error {
	if found := versionAt(data); found != version {
		return &fileversion.Error{File: l.path.String(), Found: found, Known: version}
	}
	return nil
}

func (l *Log) read(limit int64) ([]byte, error) {
	data, err := l.path.Read(limit)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return data, err
}

func (l *Log) load(e entry) {
	l.settled = max(l.settled, e.settled)
	l.window.cut(e.first)
	for number := e.first; len(e.ids) > 0; number++ {
		l.window.add(ID(e.ids), number)
		e.ids = e.ids[len(ID{}):]
	}
}

// Restore takes over what the queue says: every record up to acked is stored, and no
// other is. Zero means that the queue has none of the producer, or has forgotten it.
// next is the number of the next record. The file is durable on nil.
func (l *Log) Restore(acked uint64) (next uint64, err error) {
	if acked == 0 {
		acked = l.settled
	}
	l.settled, l.next = acked, acked+1
	l.window.cut(l.next)
	l.window.trim(l.settled)
	return l.next, l.rewrite(l.next)
}

// Next is the number of the next record.
func (l *Log) Next() uint64 { return l.next }

// Add gives the record with this identity its number. isNew says that the record got
// the next number, and is known from now on. Otherwise number is the one that it has
// already. A record without an identity is always new. Sync must follow before the
// record is submitted. earlier are IDs that an earlier docket may have given the
// record.
func (l *Log) Add(id ID, earlier ...ID) (number uint64, isNew bool) {
	if number, ok := l.window.numbers[id]; ok {
		return number, false
	}
	for _, id := range earlier {
		if number, ok := l.window.numbers[id]; ok {
			return number, false
		}
	}
	number = l.next
	l.next++
	l.window.add(id, number)
	l.added = append(l.added, id)
	return number, true
}

// Sync makes durable what was added since the last Sync. After an error nothing of it
// is durable, and it must be cut. The next call tries a new file.
func (l *Log) Sync() error {
	first := l.next - uint64(len(l.added))
	added := l.added
	l.added, l.last = l.added[:0], place{}
	if l.file != nil && !slices.ContainsFunc(added, func(id ID) bool { return id != ID{} }) {
		return nil // without a file, the one on disk may have other records under these numbers
	}
	if l.file == nil || l.end > max(maxFile, 2*l.window.bytes()) {
		if err := l.rewrite(first); err != nil {
			return err
		}
	}
	at := l.end
	if err := l.put(first, added); err != nil {
		return err
	}
	err := l.file.Sync()
	if err == nil {
		err = l.file.Check() // what is synced to a file that was removed, no restart finds
	}
	if err != nil {
		return l.abandon(fmt.Errorf("sync: %w", err))
	}
	l.last = place{first, at}
	return nil
}

// Cut takes back the numbers from next on. They were added since the Sync before the
// last one, and not submitted. They are out of the file, durably, before they are given
// again.
func (l *Log) Cut(next uint64) {
	if next >= l.next {
		return
	}
	l.window.cut(next)
	l.next, l.added = next, l.added[:0]
	if l.file == nil || l.last.first == 0 {
		return // no file that will be used has them
	}
	if next > l.last.first || l.truncate(l.last.at) != nil {
		l.Close() // the next Sync writes a new file, and reports when it cannot
	}
}

func (l *Log) truncate(at int64) error {
	if err := l.file.Truncate(at); err != nil {
		return err
	}
	l.end, l.size, l.last = at, at, place{}
	return l.file.Sync()
}

// Settled tells that every record up to through is durable.
func (l *Log) Settled(through uint64) {
	l.settled = max(l.settled, through)
	l.window.trim(l.settled)
}

// Mark writes down what Settled was told, for a time in which no entry follows that
// would say it. Mark does not sync: a sync would matter only if the machine lost its
// power within seconds, and came back after the queue has forgotten the producer. Call
// Sync first for everything that was added.
func (l *Log) Mark() {
	if l.told == l.settled || l.file == nil {
		return
	}
	// An error is one of the next Sync too, as the file is abandoned.
	_ = l.put(l.next, nil)
}

// Close closes the file.
func (l *Log) Close() {
	if l.file != nil {
		l.file.Close()
		l.file = nil
	}
}

// put writes an entry at the end of the file.
func (l *Log) put(first uint64, ids []ID) error {
	l.buf = appendEntry(l.buf[:0], first, l.settled, ids)
	end := l.end + int64(len(l.buf))
	if end > l.size {
		l.buf = append(l.buf, make([]byte, ahead)...)
	}
	if _, err := l.file.WriteAt(l.buf, l.end); err != nil {
		return l.abandon(err)
	}
	l.size = max(l.size, l.end+int64(len(l.buf)))
	l.end, l.told = end, l.settled
	return nil
}

// abandon leaves a file that did not take what was written: nobody knows what it holds.
func (l *Log) abandon(err error) error {
	l.Close()
	return fmt.Errorf("log of known records: %w", err)
}

// rewrite puts a new file in the place of the old one, with what is known of the numbers
// below next.
func (l *Log) rewrite(next uint64) error {
	l.Close()
	content := appendEntries(nil, l.window.below(next), next, l.settled)
	end := int64(len(content))
	content = append(content, make([]byte, ahead)...)
	err := l.path.Dir().MakeDir()
	if err == nil {
		err = l.path.Replace(content)
	}
	if err == nil {
		l.file, err = l.path.OpenWrite()
	}
	if err != nil {
		return fmt.Errorf("log of known records: %w", err)
	}
	l.end, l.size, l.told, l.last = end, int64(len(content)), l.settled, place{}
	return nil
}
