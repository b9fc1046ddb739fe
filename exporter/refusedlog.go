package exporter

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"
	"unicode/utf8"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/outage"
	"github.com/docket-export/docket/sources"
)

// Refused lines are for a person to look at: enough to find the faulty producer,
// never enough to fill the disk that the queue is on.
const (
	refusedMaxBytes  = 64 << 20
	refusedFileBytes = 8 << 20
	refusedPrefix    = "refused-"
	refusedSuffix    = ".ndjson"
)

// refusedLine is one object of the refused files.
type refusedLine struct {
	Time     time.Time      `json:"time"`
	Source   string         `json:"source"`
	Producer string         `json:"producer,omitempty"`
	Number   uint64         `json:"seq,omitempty"` // the producer's number of the line
	Reason   sources.Reason `json:"reason"`
	Detail   string         `json:"detail"`
	Line     string         `json:"line,omitempty"`
	Base64   []byte         `json:"lineBase64,omitempty"` // of a line that is not UTF-8

	// Bytes is the length of a line that is not here in full.
	Bytes int64 `json:"bytes,omitempty"`
	// Instead of the line, where its source redacts.
	SHA256      string `json:"sha256,omitempty"`
	SHA256Bytes int    `json:"sha256Bytes,omitempty"` // how much of the line SHA256 is of, when that is not all

	text []byte // becomes Line or Base64
}

// hold keeps of a line what a person needs to see.
func (l *refusedLine) hold(line lineText) {
	begin := line.begin[:min(len(line.begin), maxEvidence)]
	if l.text = bytes.Clone(begin); int64(len(begin)) < line.length {
		l.Bytes = line.length
	}
}

// conceal keeps of a line what tells whether another one is the same.
func (l *refusedLine) conceal(line lineText) {
	sum := sha256.Sum256(line.begin)
	l.Bytes, l.SHA256 = line.length, hex.EncodeToString(sum[:])
	if int64(len(line.begin)) < line.length {
		l.SHA256Bytes = len(line.begin)
	}
}

// refusedLog keeps refused lines in files of refusedFileBytes each, of which the
// oldest go when there are more than refusedMaxBytes. A rate bounds what one source adds.
type refusedLog struct {
	dir disk.Path // below that of the queue, where no link is followed
	log *slog.Logger

	mu      sync.Mutex
	path    disk.Path // of file
	file    *disk.Log // nil before the first line and after a failure
	dropped int       // files dropped since the start
	rate    refusedRate

	said    outage.Log
	failure atomic.Pointer[string] // why lines cannot be kept; nil: they can
}

// add makes lines durable before it returns, or counts them as left out: because they
// come faster than the rate, or because the disk does not take them. A full disk must not
// keep a producer from hearing that its line is bad. The failure is logged. All lines are of
// one source.
func (r *refusedLog) add(source string, lines []refusedLine) {
	r.mu.Lock()
	defer r.mu.Unlock()
	var text []byte
	var kept uint64
	for i := range lines {
		object := lines[i].object()
		admitted, begins := r.rate.admit(source, len(object), time.Now())
		if begins {
			r.log.Warn("refused lines come faster than they can be kept: docket counts the lines that it leaves out", "source", source)
		}
		if admitted {
			text = append(text, object...)
			kept++
		}
	}
	if left := uint64(len(lines)) - kept; left > 0 {
		r.rate.leaveOut(source, left)
	}
	if kept == 0 {
		return
	}
	err := r.write(text)
	if err == nil {
		r.failure.Store(nil)
		if _, news := r.said.Works(); news {
			r.log.Info("refused lines are kept again")
		}
		return
	}
	r.rate.leaveOut(source, kept)
	r.abandon()
	why := err.Error()
	r.failure.Store(&why)
	if r.said.Fails(outage.Cause(err)) { // the text names another file each time
		r.log.Error("refused lines cannot be kept: they are only counted", "error", err)
	}
}

// object is l as a line of the files.
func (l *refusedLine) object() []byte {
	if utf8.Valid(l.text) {
		l.Line = string(l.text)
	} else {
		l.Base64 = l.text
	}
	object, _ := json.Marshal(l) // a struct of texts, numbers and times always has a form
	return append(object, '\n')
}

// abandon ends a file that could not be written. An empty one is removed: a full
// disk must not fill up with names.
func (r *refusedLog) abandon() {
	if r.file == nil {
		return
	}
	if r.file.End == 0 {
		_ = r.path.Remove() // what stays is dropped as the oldest, some day
	}
	r.file.Close()
	r.file = nil
}

func (r *refusedLog) write(text []byte) error {
	if r.file == nil || r.file.End >= refusedFileBytes {
		if err := r.rotate(); err != nil {
			return err
		}
	}
	return r.file.Append(text)
}

// rotate begins a new file and drops the oldest beyond the bound.
func (r *refusedLog) rotate() error {
	if err := r.dir.MakeDir(); err != nil {
		return err
	}
	if r.file != nil {
		r.file.Close()
		r.file = nil
	}
	if err := r.dropOldest(); err != nil {
		return err
	}
	r.path = r.dir.Join(refusedPrefix + time.Now().UTC().Format("20060102T150405.000000000Z") + refusedSuffix)
	f, err := r.path.Create()
	if err != nil {
		return err
	}
	if err := r.dir.SyncDir(); err != nil {
		return errors.Join(err, f.Close())
	}
	r.file = &disk.Log{File: f}
	return nil
}

func (r *refusedLog) dropOldest() error {
	names, err := r.dir.List() // sorted: the names are times
	if err != nil {
		return err
	}
	total := int64(refusedFileBytes) // the file about to be begun
	for _, name := range slices.Backward(names) {
		if !strings.HasPrefix(name, refusedPrefix) {
			continue
		}
		size, err := r.dir.Join(name).Size()
		if err != nil {
			return err
		}
		total += size
		if total <= refusedMaxBytes {
			continue
		}
		if err := r.dir.Join(name).Remove(); err != nil {
			return err
		}
		r.dropped++
		r.log.Warn("oldest refused lines dropped to keep within their bound", "file", name, "bound", refusedMaxBytes, "droppedFiles", r.dropped)
	}
	return nil
}

func (r *refusedLog) close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.file == nil {
		return nil
	}
	err := r.file.Close()
	r.file = nil
	return err
}
