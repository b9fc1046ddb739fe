package cli

import (
	"bufio"
	"bytes"
	"errors"
	"io"
	"sort"
	"sync"
)

// maxLine is the longest line that send reads: the highest limits.maxRecordBytes
// that a configuration can have, so no exporter would take a longer one.
const maxLine = 16 << 20

// errTooLong is what lineReader.next returns for a line over maxLine.
var errTooLong = errors.New("longer than 16Mi")

// lineReader reads the lines of a file that have a record in them.
type lineReader struct {
	r      *bufio.Reader
	number uint64 // of the line read last, blank ones counted, from 1
	read   int64  // bytes read so far
	line   []byte // reused by next
}

func newLineReader(r io.Reader) *lineReader {
	return &lineReader{r: bufio.NewReaderSize(r, 256<<10)}
}

// next returns the next line that is not blank, without its newline and a "\r"
// before that. It is valid until the next call. At the end of the input the error
// is io.EOF; after errTooLong reading goes on with the line that follows.
func (l *lineReader) next() ([]byte, error) {
	for {
		line, err := l.whole()
		if err != nil {
			return nil, err
		}
		if len(bytes.TrimSpace(line)) > 0 {
			return line, nil
		}
	}
}

// whole returns the next line, blank or not. A last line needs no newline.
func (l *lineReader) whole() ([]byte, error) {
	l.line = l.line[:0]
	tooLong := false
	for {
		part, err := l.r.ReadSlice('\n')
		l.read += int64(len(part))
		// Two bytes more than a line may have: they may be its "\r\n".
		if tooLong = tooLong || len(l.line)+len(part) > maxLine+2; !tooLong {
			l.line = append(l.line, part...)
		}
		if errors.Is(err, bufio.ErrBufferFull) {
			continue
		}
		ended := len(l.line) > 0 || tooLong
		if err != nil && !(err == io.EOF && ended) {
			return nil, err
		}
		l.number++
		line := bytes.TrimSuffix(bytes.TrimSuffix(l.line, []byte("\n")), []byte("\r"))
		if tooLong || len(line) > maxLine {
			return nil, errTooLong
		}
		return line, nil
	}
}

// lineNumbers knows which line of the input the n-th one sent was: blank lines
// and those that cannot be sent have a number in the input only.
type lineNumbers struct {
	mu   sync.Mutex
	sent uint64
	runs []lineRun // ascending; from the oldest line in flight on
}

// lineRun is a number of lines that follow each other in the input and were all
// sent. It ends where the next one begins.
type lineRun struct{ sent, line uint64 }

// add notes that line is sent next.
func (l *lineNumbers) add(line uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.sent++
	if n := len(l.runs); n == 0 || line-l.runs[n-1].line != l.sent-l.runs[n-1].sent {
		l.runs = append(l.runs, lineRun{sent: l.sent, line: line})
	}
}

// line is the number in the input of the line that was sent as number sent.
func (l *lineNumbers) line(sent uint64) uint64 {
	l.mu.Lock()
	defer l.mu.Unlock()
	next := sort.Search(len(l.runs), func(i int) bool { return l.runs[i].sent > sent })
	run := l.runs[next-1]
	return run.line + sent - run.sent
}

// forget lets go of the first sent lines: nobody will ask for them.
func (l *lineNumbers) forget(sent uint64) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for len(l.runs) > 1 && l.runs[1].sent <= sent+1 {
		l.runs = l.runs[1:]
	}
}
