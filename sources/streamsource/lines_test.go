package streamsource

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"strings"
	"testing"
)

// cutAll reads src to its end and lists what came: lines with their newline,
// over-long ones as "prefix|length", what was left as "rest ...", and the error.
func cutAll(src io.Reader, limit int) (got []string, err error) {
	r := newLineReader(src, limit)
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

// shredded returns its input in reads of random sizes.
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

func checkCut(t *testing.T, input []byte, limit int, seed uint64, most int) {
	t.Helper()
	src := &shredded{input: input, dice: rand.New(rand.NewPCG(seed, 0)), most: most}
	got, err := cutAll(src, limit)
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

func FuzzLineReader(f *testing.F) {
	f.Add([]byte("a\nbc\r\n\n \ndef"), uint8(3), uint64(1))
	f.Add([]byte("12345\n1234\r\n1234\r5\n"), uint8(4), uint64(2))
	f.Add(bytes.Repeat([]byte("x"), 100), uint8(5), uint64(3))
	f.Add(append(bytes.Repeat([]byte("x"), 40), "\ny\n"...), uint8(5), uint64(4))
	f.Fuzz(func(t *testing.T, input []byte, limit uint8, seed uint64) {
		for _, most := range []int{1, 7, 1 << 20} {
			checkCut(t, input, 1+int(limit), seed, most)
		}
	})
}

// Lines around every size at which the reader does something else.
func TestLineReaderSizes(t *testing.T) {
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
		for _, most := range []int{511, 64 << 10, 1 << 30} {
			checkCut(t, input, limit, 1, most)
			checkCut(t, append(input, "partial"...), limit, 2, most)
			checkCut(t, append(input, strings.Repeat("p", limit+1)...), limit, 3, most)
			checkCut(t, append(input, strings.Repeat("p", endlessFactor*limit+1)...), limit, 4, most)
		}
	}
}

func TestLineReaderBuffer(t *testing.T) {
	const limit = 1 << 20
	in, out := io.Pipe()
	defer in.Close()
	r := newLineReader(in, limit)
	feed := func(text string) { // and take it
		go out.Write([]byte(text))
		for taken := 0; taken < len(text); {
			lines, length, err := r.next()
			if err != nil {
				t.Fatal(err)
			}
			taken += max(len(lines), int(length)+1)
		}
	}
	size := func(what string, want int) {
		t.Helper()
		if len(r.buf) > want {
			t.Errorf("buffer %s: got %d bytes, want at most %d", what, len(r.buf), want)
		}
	}
	for range 100 {
		feed("{}\n")
	}
	size("of a quiet producer", firstBuffer)
	feed(strings.Repeat("{\"a\":1}\n", 1<<19))
	size("of a busy producer", readBuffer)
	if len(r.buf) != readBuffer {
		t.Errorf("buffer of a busy producer: got %d bytes, want %d", len(r.buf), readBuffer)
	}
	feed(strings.Repeat("x", 15*limit) + "\n")
	size("for an over-long line", limit+skipRoom)
	feed("{}\n")
	size("after that line", readBuffer)
}

func BenchmarkReader(b *testing.B) {
	line := []byte(`{"message":"` + strings.Repeat("x", 1010) + `"}` + "\n")
	chunk := bytes.Repeat(line, 1000)
	for _, mode := range []string{"plain", "acknowledged"} {
		b.Run(mode, func(b *testing.B) {
			r := newLineReader(&endlessly{chunk: chunk}, 1<<20)
			b.SetBytes(int64(len(line)))
			b.ReportAllocs()
			for n := 0; n < b.N; {
				lines, _, err := r.next()
				if err != nil {
					b.Fatal(err)
				}
				if mode == "plain" {
					n += len(lines) / len(line)
					continue
				}
				size, count, hello := cut(lines)
				if size != len(lines) || hello {
					b.Fatalf("cut: got %d, %t, want %d, false", size, hello, len(lines))
				}
				n += count
			}
		})
	}
}

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
