package streamsource

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
)

// cutAll reads src to its end and lists what came: lines with their newline,
// over-long ones as "prefix|length", what was left as "rest ...", and the error.
func cutAll(src io.Reader, ready func() bool, limit int) (got []string, err error) {
	r := newLineReader(src, ready, limit, new(buffers), new(ledger))
	for {
		lines, length, err := r.next()
		if err != nil {
			if rest, length := r.rest(); length > int64(limit) {
				got = append(got, fmt.Sprintf("rest %s|%d", rest[:limit], length))
			} else if len(rest) > 0 {
				got = append(got, "rest "+string(rest))
			}
			return got, err
		}
		if length > 0 {
			got = append(got, fmt.Sprintf("%s|%d", lines, length))
		} else {
			for line := range bytes.Lines(lines) {
				got = append(got, string(line))
			}
		}
		clear(lines) // the session may overwrite them
	}
}

func yes() bool { return true }

// split is what cutAll should find, from the whole input.
func split(input []byte, limit int) (want []string, err error) {
	parts := bytes.Split(input, []byte("\n"))
	for i, part := range parts {
		content := bytes.TrimSuffix(part, []byte("\r"))
		last := i == len(parts)-1
		switch {
		case last && len(part) == 0:
		case len(part) > endlessFactor*limit:
			return want, errEndless
		case last && len(part) > limit+1:
			want = append(want, fmt.Sprintf("rest %s|%d", part[:limit], len(part)))
		case len(content) > limit && last:
			want = append(want, fmt.Sprintf("rest %s|%d", part[:limit], len(content)))
		case len(content) > limit:
			want = append(want, fmt.Sprintf("%s|%d", part[:limit], len(content)))
		case last:
			want = append(want, "rest "+string(part))
		default:
			want = append(want, string(part)+"\n")
		}
	}
	return want, io.EOF
}

// shredded returns its input in reads of random sizes up to most.
type shredded struct {
	input []byte
	dice  *rand.Rand
	most  int
}

func (s *shredded) Read(p []byte) (int, error) {
	if len(s.input) == 0 {
		return 0, io.EOF
	}
	n := copy(p[:min(len(p), 1+s.dice.IntN(s.most))], s.input)
	s.input = s.input[n:]
	return n, nil
}

func (s *shredded) guess() bool { return s.dice.IntN(2) == 0 }

func checkCut(t *testing.T, input []byte, limit int, seed uint64, most int) {
	t.Helper()
	src := &shredded{input: input, dice: rand.New(rand.NewPCG(seed, 0)), most: most}
	got, err := cutAll(src, src.guess, limit)
	want, wantErr := split(input, limit)
	if errors.Is(wantErr, errEndless) && len(got) > 0 && strings.HasPrefix(got[len(got)-1], "rest ") {
		got = got[:len(got)-1] // how much of an endless line was seen is chance
	}
	if !errors.Is(err, wantErr) {
		t.Fatalf("limit %d, seed %d, most %d: got %v, want %v", limit, seed, most, err, wantErr)
	}
	if len(got) != len(want) {
		t.Fatalf("limit %d, seed %d, most %d: got %d lines, want %d\ngot  %.500q\nwant %.500q", limit, seed, most, len(got), len(want), got, want)
	}
	for i := range got {
		if got[i] != want[i] {
			t.Fatalf("limit %d, seed %d, most %d, line %d: got %.100q (%d), want %.100q (%d)", limit, seed, most, i+1, got[i], len(got[i]), want[i], len(want[i]))
		}
	}
}

// FuzzLineReader: however the input is split into reads, and whatever is guessed
// about the next one, the lines are those of the input as a whole.
func FuzzLineReader(f *testing.F) {
	f.Add([]byte("a\nbc\r\n\n \ndef"), uint16(3), uint64(1))
	f.Add([]byte("12345\n1234\r\n1234\r5\n"), uint16(4), uint64(2))
	f.Add(bytes.Repeat([]byte("x"), 100), uint16(5), uint64(3))
	f.Add(append(bytes.Repeat([]byte("x"), 40), "\ny\n"...), uint16(5), uint64(4))
	f.Add([]byte("LaL\nMM\nbR\r\nS\nQc"), uint16(20000), uint64(5))
	f.Add([]byte("S\nSa\nM\nSSM"), uint16(65535), uint64(6))
	f.Fuzz(func(t *testing.T, input []byte, limit uint16, seed uint64) {
		input = lengthen(input)
		for _, most := range []int{1 + len(input)/1000, 5000, 1 << 20} {
			checkCut(t, input, 1+int(limit), seed, most)
		}
	})
}

// lengthen makes 1, 2, 4 ... bytes of the letters A to S, so that a short input
// reaches every size of buffer.
func lengthen(input []byte) []byte {
	var long []byte
	for _, c := range input {
		n := 1
		if 'A' <= c && c <= 'S' {
			n = 1 << (c - 'A')
		}
		if len(long)+n > 2<<20 {
			break
		}
		long = append(long, bytes.Repeat([]byte{c}, n)...)
	}
	return long
}

// Lines around every size at which the reader does something else.
func TestLineReaderSizes(t *testing.T) {
	t.Parallel()
	sizes := []int{0, 1, firstBuffer - 1, firstBuffer, firstBuffer + 1, skipRoom, readBuffer - 1, readBuffer, readBuffer + 1}
	for _, limit := range []int{100, firstBuffer, readBuffer - skipRoom, readBuffer, 1 << 20} {
		var input []byte
		for _, size := range append(sizes, limit-1, limit, limit+1, limit+2, 2*limit) {
			if size > endlessFactor*limit {
				continue
			}
			for _, end := range []string{"\n", "\r\n"} {
				input = append(input, strings.Repeat("a", size)+end+"b\n"...)
			}
		}
		for _, most := range []int{511 * few(8), 64 << 10, 1 << 30} {
			checkCut(t, input, limit, 1, most)
			checkCut(t, append(input, "partial"...), limit, 2, most)
			checkCut(t, append(input, strings.Repeat("p", limit+1)...), limit, 3, most)
			checkCut(t, append(input, strings.Repeat("p", endlessFactor*limit+1)...), limit, 4, most)
		}
	}
}

// pausing returns what it was given, then errPause once it is all read.
type pausing struct {
	left  []byte
	waits func() // is called when a read finds nothing
}

var errPause = errors.New("nothing more for now")

func (p *pausing) Read(b []byte) (int, error) {
	if len(p.left) == 0 {
		p.waits()
		return 0, errPause
	}
	n := copy(b, p.left)
	p.left = p.left[n:]
	return n, nil
}

// A producer that is silent costs its smallest buffer and what it has sent of a
// line, whatever it has sent before.
func TestLineReaderWaitsWithSmallBuffer(t *testing.T) {
	t.Parallel()
	const limit = 1 << 20
	burst := strings.Repeat("{\"a\":1}\n", 1<<19)
	part := func(n int) string { return strings.Repeat("x", n) }
	for name, test := range map[string]struct {
		send string
		want int // bytes of buffer while nothing comes
	}{
		"nothing":                   {"", firstBuffer},
		"a short line":              {"{}\n", firstBuffer},
		"a long line":               {part(100<<10) + "\n", firstBuffer},
		"a burst":                   {burst, firstBuffer},
		"a full small buffer":       {part(firstBuffer-1) + "\n", firstBuffer},
		"a full large buffer":       {"{}\n" + strings.Repeat(part(1023)+"\n", (firstBuffer+readBuffer)>>10), firstBuffer},
		"half a short line":         {"{", firstBuffer},
		"a burst and half a line":   {burst + part(1000), firstBuffer},
		"half a line of 5,000":      {part(5000), 10000},
		"half a line of 100 KiB":    {burst + part(100<<10), 200 << 10},
		"half a line at the limit":  {part(limit), limit + skipRoom},
		"a line at the limit":       {part(limit) + "\n", firstBuffer},
		"half an over-long line":    {part(15 * limit), limit + skipRoom},
		"an over-long line":         {part(15*limit) + "\n", firstBuffer},
		"over-long and half a line": {part(15*limit) + "\n{}\n" + part(2000), firstBuffer},
	} {
		t.Run(name, func(t *testing.T) {
			var mem ledger
			var r *lineReader
			src := &pausing{left: []byte(test.send)}
			src.waits = func() {
				if len(r.buf) > test.want {
					t.Errorf("buffer while waiting: got %d bytes, want at most %d", len(r.buf), test.want)
				}
				if want := max(0, len(r.buf)-firstBuffer); r.lent || len(r.buf) > firstBuffer && mem.held != len(r.buf) || want == 0 && mem.held != 0 {
					t.Errorf("memory while waiting: got %d bytes held for a buffer of %d, lent: %t", mem.held, len(r.buf), r.lent)
				}
			}
			r = newLineReader(src, func() bool { return len(src.left) > 0 }, limit, new(buffers), &mem)
			for range 2 { // a second look changes nothing
				for err := error(nil); !errors.Is(err, errPause); {
					_, _, err = r.next()
				}
			}
		})
	}
}

// A line without an end is given up at its bound, of which the limit is kept.
func TestEndlessLineIsNotKept(t *testing.T) {
	const limit = 1 << 20
	src := &endlessly{chunk: bytes.Repeat([]byte("x"), 1<<20)}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	r := newLineReader(src, yes, limit, new(buffers), new(ledger))
	if _, _, err := r.next(); !errors.Is(err, errEndless) {
		t.Fatalf("next: got %v, want %v", err, errEndless)
	}
	runtime.ReadMemStats(&after)
	if got := after.TotalAlloc - before.TotalAlloc; got > 4*limit {
		t.Errorf("memory for an endless line: got %d bytes in all, want at most %d", got, 4*limit)
	}
	if line, length := r.rest(); len(line) != limit || length > endlessFactor*limit+skipRoom {
		t.Errorf("rest: got %d bytes of %d, want %d of little more than %d", len(line), length, limit, endlessFactor*limit)
	}
}

// A buffer that has grown for one large record is small again right after it, also while
// more is there to read, and with nothing to borrow.
func TestLineReaderShrinks(t *testing.T) {
	t.Parallel()
	const limit = 16 << 20
	large := "{\"a\":\"" + strings.Repeat("x", limit-100) + "\"}\n"
	for _, poor := range []bool{false, true} {
		src := &pausing{left: []byte(large + strings.Repeat("{}\n", 8<<20)), waits: func() {}}
		mem := &ledger{poor: poor}
		r := newLineReader(src, func() bool { return len(src.left) > 0 }, limit, new(buffers), mem)
		for range 3 { // the large one, what came with it, and what comes next
			if _, _, err := r.next(); err != nil {
				t.Fatal(err)
			}
		}
		if mem.held > readBuffer || len(r.buf) > readBuffer {
			t.Errorf("after a record of %d bytes, poor %t: got %d bytes held for a buffer of %d, want at most %d", limit, poor, mem.held, len(r.buf), readBuffer)
		}
	}
}

// ledger is memory without a bound, of which it counts what is held.
type ledger struct {
	held int
	poor bool // it has none to spare
}

func (l *ledger) Try(n int) bool {
	if !l.poor {
		l.held += n
	}
	return !l.poor
}

func (l *ledger) Take(n int) error { l.held += n; return nil }
func (l *ledger) Give(n int)       { l.held -= n }
func (l *ledger) Await(bool)       {}
func (l *ledger) Renew()           {}

// endlessly repeats a chunk.
type endlessly struct {
	chunk []byte
	at    int
}

func (e *endlessly) Read(p []byte) (int, error) {
	n := copy(p, e.chunk[e.at:])
	e.at = (e.at + n) % len(e.chunk)
	return n, nil
}
