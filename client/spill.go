package client

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"time"

	"github.com/docket-export/docket/decision/stream"
)

// remains are the lines that a client ends, or begins, with. They have numbers,
// next and up, under which some of them may have been sent already.
type remains struct {
	producer string
	next     uint64
	lines    []*line
}

// records counts the lines of callers.
func (r remains) records() (n int) {
	for _, l := range r.lines {
		if l.report == nil {
			n++
		}
	}
	return n
}

// spill is a file in which one client leaves lines to the next that has the same
// file. Its content is what is left to say to the exporter, a hello and lines:
//
//	{"docket":{"version":1,"producer":"...","next":17}}
//	{...record 17...}
//	{...record 18...}
//
// The next client goes on with that producer and its numbers, so a line that was
// sent before is not stored twice. The file is replaced as a whole, and removed
// once its lines are handled. The client sends no other line before the removal is
// durable, or has failed: a file that came back would give their numbers to other
// lines. A lock on a file beside it keeps a second process away.
type spill struct {
	path string
	log  *slog.Logger
	lock *os.File
	last uint64 // number of the file's last line; 0: there is no file
}

// openSpill locks the file and returns what is in it, or fresh if there is none.
// A file that is not understood is set aside; one of another version is an error, and stays.
func openSpill(path string, fresh remains, log *slog.Logger) (*spill, remains, error) {
	lock, err := lockFile(path + ".lock")
	if err != nil {
		return nil, remains{}, fmt.Errorf("spill file %s: %w", path, err)
	}
	s := &spill{path: path, log: log, lock: lock}
	left, err := s.read()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return s, fresh, nil
	case errors.Is(err, errNotSpill):
		rejected := fmt.Sprintf("%s.unreadable-%d", path, time.Now().UnixNano())
		log.Error("the spill file cannot be read and is set aside", "file", path, "as", rejected, "error", err)
		if err = os.Rename(path, rejected); err == nil {
			return s, fresh, nil
		}
	case err == nil:
		s.last = left.next + uint64(len(left.lines)) - 1
		log.Info("records of an earlier run are sent first", "file", path, "records", left.records())
		return s, left, nil
	}
	lock.Close()
	return nil, remains{}, fmt.Errorf("spill file %s: %w", path, err)
}

// errNotSpill says that a file is not one that a client has left.
var errNotSpill = errors.New("not a spill file")

func (s *spill) read() (remains, error) {
	f, err := openOwn(s.path, os.O_RDONLY)
	if err != nil {
		return remains{}, err
	}
	defer f.Close()
	content, err := io.ReadAll(f)
	if err != nil {
		return remains{}, err
	}
	first, rest, whole := bytes.Cut(content, []byte{'\n'})
	hello, err := stream.ParseHello(first)
	if errors.Is(err, stream.ErrVersion) {
		return remains{}, fmt.Errorf("written by another version of the client, use that version: %w", err)
	}
	if err != nil || !whole {
		return remains{}, fmt.Errorf("%w: its first line is not a hello", errNotSpill)
	}
	left := remains{producer: hello.Producer, next: hello.Next}
	for n := 1; len(rest) > 0; n++ {
		text, after, whole := bytes.Cut(rest, []byte{'\n'})
		if err := checkLine(text); err != nil || !whole {
			return remains{}, fmt.Errorf("%w: line %d is incomplete, blank, or a hello", errNotSpill, n+1)
		}
		rest = after
		l := &line{text: append(bytes.Clone(text), '\n'), kind: unspecified, keep: true, report: parseLoss(text)}
		left.lines = append(left.lines, l)
	}
	if len(left.lines) == 0 {
		return remains{}, fmt.Errorf("%w: it has no lines", errNotSpill)
	}
	return left, nil
}

// acked removes the file when its last line is handled.
func (s *spill) acked(n uint64) {
	if s.last > 0 && n >= s.last {
		s.remove()
	}
}

func (s *spill) remove() {
	if err := removeOwn(s.path); err != nil {
		// Harmless for a day to a client that meets the exporter: it knows the lines. One that
		// meets none leaves lines of its own under numbers that may be in use.
		s.log.Warn("cannot remove the spill file, which is no longer needed: remove it", "file", s.path, "error", err)
	}
	s.last = 0
}

// close leaves rest in the file, if there is any, and unlocks it. When it
// returns nil the file is durable.
func (s *spill) close(rest remains) error {
	defer s.lock.Close()
	if len(rest.lines) == 0 {
		if s.last > 0 {
			s.remove()
		}
		return nil
	}
	if err := s.write(rest); err != nil {
		return fmt.Errorf("spill file %s: %w", s.path, err)
	}
	s.log.Info("records that docket has not acknowledged wait for the next start", "file", s.path, "records", rest.records())
	return nil
}

// write replaces the file.
func (s *spill) write(rest remains) error {
	return replaceOwn(s.path, func(w io.Writer) error {
		_, err := w.Write(stream.Hello{Producer: rest.producer, Next: rest.next}.Append(nil))
		for i := 0; err == nil && i < len(rest.lines); i++ {
			_, err = w.Write(rest.lines[i].text)
		}
		return err
	})
}
